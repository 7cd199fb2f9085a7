//! What an update of a subscription changes, and whether to ask first.

use std::collections::HashMap;

use crate::identity::Identity;
use crate::node::Node;

/// How an old and a new list of nodes relate. Numbers are indexes into the two lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The same node under the same name: (old, new).
    pub kept: Vec<(usize, usize)>,
    /// The same node under another name: (old, new).
    pub renamed: Vec<(usize, usize)>,
    /// The same name and protocol with other options, such as a rotated key: (old, new).
    pub changed: Vec<(usize, usize)>,
    /// Only in the new list.
    pub added: Vec<usize>,
    /// Only in the old list.
    pub removed: Vec<usize>,
}

/// Compares two lists. Each node takes part in one pair at most, so equal nodes stay apart.
pub fn diff(old: &[Node], new: &[Node]) -> Diff {
    let mut diff = Diff::default();
    let old_ids: Vec<Identity> = old.iter().map(Node::identity).collect();
    let new_ids: Vec<Identity> = new.iter().map(Node::identity).collect();
    let mut old_left = vec![true; old.len()];
    let mut new_left = vec![true; new.len()];

    let same = pairs(
        &old_left,
        &new_left,
        |at| (&old_ids[at], old[at].name.as_str()),
        |at| (&new_ids[at], new[at].name.as_str()),
    );
    settle(&same, &mut old_left, &mut new_left);
    diff.kept = same;
    let renamed = pairs(&old_left, &new_left, |at| &old_ids[at], |at| &new_ids[at]);
    settle(&renamed, &mut old_left, &mut new_left);
    diff.renamed = renamed;
    let named = |nodes: &[Node], at: usize| (nodes[at].name.clone(), std::mem::discriminant(&nodes[at].protocol));
    let mut changed = pairs(&old_left, &new_left, |at| named(old, at), |at| named(new, at));
    changed.retain(|(at, _)| !old[*at].name.is_empty());
    settle(&changed, &mut old_left, &mut new_left);
    diff.changed = changed;
    diff.removed = (0..old.len()).filter(|at| old_left[*at]).collect();
    diff.added = (0..new.len()).filter(|at| new_left[*at]).collect();
    diff
}

/// Pairs what is left by key, in order.
fn pairs<K: std::hash::Hash + Eq>(
    old_left: &[bool],
    new_left: &[bool],
    old_key: impl Fn(usize) -> K,
    new_key: impl Fn(usize) -> K,
) -> Vec<(usize, usize)> {
    let mut waiting: HashMap<K, std::collections::VecDeque<usize>> = HashMap::new();
    for at in (0..old_left.len()).filter(|at| old_left[*at]) {
        waiting.entry(old_key(at)).or_default().push_back(at);
    }
    let mut found = Vec::new();
    for at in (0..new_left.len()).filter(|at| new_left[*at]) {
        if let Some(old) = waiting.get_mut(&new_key(at)).and_then(std::collections::VecDeque::pop_front) {
            found.push((old, at));
        }
    }
    found
}

fn settle(pairs: &[(usize, usize)], old_left: &mut [bool], new_left: &mut [bool]) {
    for (old, new) in pairs {
        old_left[*old] = false;
        new_left[*new] = false;
    }
}

/// Whether an update may be taken without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Take it.
    Take,
    /// Ask first: the new list is empty.
    AskEmpty,
    /// Ask first: the new list has lost 80 % or more of the nodes.
    AskShrunk,
}

/// Judges an update by the counts of nodes before and after. A list that was empty can't get worse.
pub fn judge(old: usize, new: usize) -> Judgement {
    if old == 0 {
        Judgement::Take
    } else if new == 0 {
        Judgement::AskEmpty
    } else if new.saturating_mul(5) <= old {
        Judgement::AskShrunk
    } else {
        Judgement::Take
    }
}

/// The list without repeated nodes; of equal nodes the first stays. Gives the indexes that stay.
pub fn distinct(nodes: &[Node]) -> Vec<usize> {
    let mut seen = std::collections::HashSet::new();
    (0..nodes.len()).filter(|at| seen.insert(nodes[*at].identity())).collect()
}

#[cfg(test)]
mod tests {
    use super::{Judgement, diff, distinct, judge};
    use crate::node::Node;
    use crate::parse_link;

    fn nodes(links: &[&str]) -> Vec<Node> {
        links.iter().map(|link| parse_link(link).unwrap()).collect()
    }

    #[test]
    fn every_node_is_in_one_place() {
        let old = nodes(&[
            "trojan://a@a.example.com:443#A",
            "trojan://a@a.example.com:443#A",
            "trojan://b@b.example.com:443#B",
            "trojan://c@c.example.com:443#C",
            "trojan://d@d.example.com:443#D",
        ]);
        let new = nodes(&[
            "trojan://new@n.example.com:443#N",
            "trojan://rotated@c.example.com:443#C",
            "trojan://b@b.example.com:443#Better",
            "trojan://a@a.example.com:443#A",
        ]);
        let diff = diff(&old, &new);
        assert_eq!(diff.kept, [(0, 3)]);
        assert_eq!(diff.renamed, [(2, 2)]);
        assert_eq!(diff.changed, [(3, 1)]);
        assert_eq!(diff.added, [0]);
        assert_eq!(diff.removed, [1, 4]);
        assert_eq!(distinct(&old), [0, 2, 3, 4]);
    }

    #[test]
    fn a_great_loss_asks_first() {
        assert_eq!(judge(0, 0), Judgement::Take);
        assert_eq!(judge(10, 0), Judgement::AskEmpty);
        assert_eq!(judge(10, 2), Judgement::AskShrunk);
        assert_eq!(judge(10, 3), Judgement::Take);
        assert_eq!(judge(1, 1), Judgement::Take);
    }
}
