//! All prefixes of all lists as one sorted row of disjoint ranges a family, each with the atoms
//! that it makes true.

use std::net::IpAddr;

use super::name_index::Atom;
use crate::rule::Prefix;

/// Ranges of both families.
pub(super) struct AddressIndex {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
}

#[derive(Default)]
pub(super) struct AddressIndexBuilder {
    v4: Vec<(u32, u32, Atom)>,
    v6: Vec<(u128, u128, Atom)>,
}

impl AddressIndexBuilder {
    pub(super) fn add_prefix(&mut self, prefix: Prefix, atom: Atom) {
        match prefix.address() {
            IpAddr::V4(address) => {
                let first = u32::from(address);
                let rest = u32::MAX.checked_shr(u32::from(prefix.length())).unwrap_or(0);
                self.v4.push((first, first | rest, atom));
            }
            IpAddr::V6(address) => {
                let first = u128::from(address);
                let rest = u128::MAX.checked_shr(u32::from(prefix.length())).unwrap_or(0);
                self.v6.push((first, first | rest, atom));
            }
        }
    }

    /// Adds every address that is *not* covered by `prefixes`, in both families.
    pub(super) fn add_complement(&mut self, prefixes: &[Prefix], atom: Atom) {
        let mut inner = Self::default();
        for prefix in prefixes {
            inner.add_prefix(*prefix, atom);
        }
        self.v4.extend(complement(inner.v4, u32::MAX, |value| value.checked_add(1), |value| value - 1));
        self.v6.extend(complement(inner.v6, u128::MAX, |value| value.checked_add(1), |value| value - 1));
    }

    pub(super) fn build(self) -> AddressIndex {
        AddressIndex {
            v4: Ranges::build(self.v4, |value| value.checked_add(1)),
            v6: Ranges::build(self.v6, |value| value.checked_add(1)),
        }
    }
}

impl AddressIndex {
    /// The atoms that `address` makes true.
    pub(super) fn look_up(&self, address: IpAddr) -> &[Atom] {
        match address {
            IpAddr::V4(v4) => self.v4.look_up(u32::from(v4)),
            IpAddr::V6(v6) => self.v6.look_up(u128::from(v6)),
        }
    }
}

fn complement<T: Copy + Ord + Default>(
    mut ranges: Vec<(T, T, Atom)>,
    last: T,
    after: impl Fn(T) -> Option<T>,
    before: impl Fn(T) -> T,
) -> Vec<(T, T, Atom)> {
    let Some(&(_, _, atom)) = ranges.first() else {
        return Vec::new();
    };
    ranges.sort_unstable();
    let mut holes = Vec::new();
    let mut next = Some(T::default());
    for (first, end, _) in ranges {
        let Some(from) = next else { break };
        if first > from {
            holes.push((from, before(first), atom));
        }
        if after(end).is_none_or(|beyond| beyond > from) {
            next = after(end);
        }
    }
    if let Some(from) = next {
        holes.push((from, last, atom));
    }
    holes
}

/// Disjoint ranges: range `i` runs from `starts[i]` up to the next start and holds
/// `pool[sets[i].0..][..sets[i].1]`.
struct Ranges<T> {
    starts: Vec<T>,
    sets: Vec<(u32, u16)>,
    pool: Vec<Atom>,
}

impl<T: Copy + Ord> Ranges<T> {
    fn build(ranges: Vec<(T, T, Atom)>, after: impl Fn(T) -> Option<T>) -> Self {
        // Sweep: at each border atoms come and go.
        let mut borders: Vec<(T, bool, Atom)> = Vec::with_capacity(ranges.len() * 2);
        for (first, last, atom) in ranges {
            borders.push((first, true, atom));
            if let Some(end) = after(last) {
                borders.push((end, false, atom));
            }
        }
        borders.sort_unstable_by_key(|(at, _, _)| *at);
        let mut built = Self { starts: Vec::new(), sets: Vec::new(), pool: Vec::new() };
        // Atom → how many of its ranges are open.
        let mut open: Vec<(Atom, u32)> = Vec::new();
        let mut index = 0;
        while let Some(&(at, _, _)) = borders.get(index) {
            while let Some(&(border, starts, atom)) = borders.get(index) {
                if border != at {
                    break;
                }
                match (open.iter_mut().find(|(known, _)| *known == atom), starts) {
                    (Some((_, count)), true) => *count += 1,
                    (Some((_, count)), false) => *count = count.saturating_sub(1),
                    (None, true) => open.push((atom, 1)),
                    // An end sorted before its start at the same border cannot be: ranges are not empty.
                    (None, false) => {}
                }
                index += 1;
            }
            open.retain(|(_, count)| *count > 0);
            built.push(at, open.iter().map(|(atom, _)| *atom));
        }
        built.starts.shrink_to_fit();
        built.sets.shrink_to_fit();
        built.pool.shrink_to_fit();
        built
    }

    fn push(&mut self, at: T, atoms: impl ExactSizeIterator<Item = Atom>) {
        let begin = self.pool.len();
        self.pool.extend(atoms);
        let fresh = &self.pool[begin..];
        // Neighbouring ranges nearly always repeat the set just used (or none): share it.
        let reuse =
            self.sets.iter().rev().take(2).copied().find(|(start, length)| {
                self.pool.get(*start as usize..*start as usize + *length as usize) == Some(fresh)
            });
        let set = match reuse {
            Some(set) => {
                self.pool.truncate(begin);
                set
            }
            None => {
                (u32::try_from(begin).unwrap_or(u32::MAX), u16::try_from(self.pool.len() - begin).unwrap_or(u16::MAX))
            }
        };
        if self.sets.last() != Some(&set) {
            self.starts.push(at);
            self.sets.push(set);
        }
    }

    fn look_up(&self, value: T) -> &[Atom] {
        let Some(index) = self.starts.partition_point(|start| *start <= value).checked_sub(1) else {
            return &[];
        };
        self.sets
            .get(index)
            .and_then(|(start, length)| self.pool.get(*start as usize..*start as usize + *length as usize))
            .unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::parse(text).unwrap()
    }

    #[test]
    fn nested_and_touching_ranges() {
        let mut builder = AddressIndexBuilder::default();
        builder.add_prefix(prefix("10.0.0.0/8"), 0);
        builder.add_prefix(prefix("10.1.0.0/16"), 1);
        builder.add_prefix(prefix("11.0.0.0/8"), 0);
        builder.add_prefix(prefix("255.0.0.0/8"), 2);
        builder.add_prefix(prefix("::/0"), 3);
        let index = builder.build();
        let at = |text: &str| index.look_up(text.parse().unwrap()).to_vec();
        assert_eq!(at("9.255.255.255"), vec![]);
        assert_eq!(at("10.0.0.0"), vec![0]);
        assert_eq!(at("10.1.2.3"), vec![0, 1]);
        assert_eq!(at("10.2.0.0"), vec![0]);
        assert_eq!(at("11.255.255.255"), vec![0]);
        assert_eq!(at("12.0.0.0"), vec![]);
        assert_eq!(at("255.255.255.255"), vec![2]);
        assert_eq!(at("::1"), vec![3]);
        assert_eq!(at("ffff::1"), vec![3]);
    }

    #[test]
    fn complements_cover_the_rest_of_both_families() {
        let mut builder = AddressIndexBuilder::default();
        builder.add_complement(&[prefix("0.0.0.0/8"), prefix("192.0.2.0/24"), prefix("192.0.2.0/25")], 7);
        let index = builder.build();
        assert_eq!(index.look_up("0.0.0.1".parse().unwrap()), &[]);
        assert_eq!(index.look_up("1.0.0.0".parse().unwrap()), &[7]);
        assert_eq!(index.look_up("192.0.2.200".parse().unwrap()), &[]);
        assert_eq!(index.look_up("192.0.3.0".parse().unwrap()), &[7]);
        assert_eq!(index.look_up("255.255.255.255".parse().unwrap()), &[7]);
    }
}
