//! All names of all lists in one table: from the hash of a name (or of a suffix) to the atoms that
//! it makes true.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;

/// The number of an atom.
pub(super) type Atom = u16;

/// Names and suffixes, by 64-bit hash. Two of 1.3 million names share a hash with probability
/// 5 × 10⁻⁸, and nobody can make them share one without the key.
pub(super) struct NameIndex {
    hasher: FixedState,
    full: HashTable,
    suffix: HashTable,
}

/// Collects names for a [`NameIndex`].
pub(super) struct NameIndexBuilder {
    hasher: FixedState,
    full: Vec<(u64, Atom)>,
    suffix: Vec<(u64, Atom)>,
}

impl NameIndexBuilder {
    pub(super) fn new(seed: u64) -> Self {
        Self { hasher: FixedState::with_seed(seed), full: Vec::new(), suffix: Vec::new() }
    }

    pub(super) fn add_full(&mut self, name: &str, atom: Atom) {
        self.full.push((self.hasher.hash_one(name), atom));
    }

    pub(super) fn add_suffix(&mut self, name: &str, atom: Atom) {
        self.suffix.push((self.hasher.hash_one(name), atom));
    }

    pub(super) fn build(self) -> NameIndex {
        NameIndex { hasher: self.hasher, full: HashTable::build(self.full), suffix: HashTable::build(self.suffix) }
    }
}

impl NameIndex {
    /// Calls `found` for each atom that `name` makes true.
    pub(super) fn look_up(&self, name: &str, mut found: impl FnMut(Atom)) {
        if !self.full.is_empty() {
            self.full.look_up(self.hasher.hash_one(name), &mut found);
        }
        if self.suffix.is_empty() {
            return;
        }
        let mut rest = name;
        loop {
            self.suffix.look_up(self.hasher.hash_one(rest), &mut found);
            match rest.split_once('.') {
                Some((_, parent)) => rest = parent,
                None => break,
            }
        }
    }
}

/// A read-only multimap from hashes to atoms: entries are sorted into buckets by their upper bits.
struct HashTable {
    /// How far a hash is shifted to give its bucket.
    shift: u32,
    /// Start of each bucket in `hashes`, and one past the last.
    starts: Vec<u32>,
    hashes: Vec<u64>,
    atoms: Vec<Atom>,
}

impl HashTable {
    fn build(mut entries: Vec<(u64, Atom)>) -> Self {
        entries.sort_unstable();
        entries.dedup();
        // About four entries a bucket: one cache line of hashes.
        let bits = (entries.len() / 4).next_power_of_two().trailing_zeros().max(1);
        let shift = 64 - bits;
        let mut starts = Vec::with_capacity((1 << bits) + 1);
        let mut next = 0u64;
        for (index, (hash, _)) in entries.iter().enumerate() {
            while next <= hash >> shift {
                starts.push(u32::try_from(index).unwrap_or(u32::MAX));
                next += 1;
            }
        }
        starts.resize((1 << bits) + 1, u32::try_from(entries.len()).unwrap_or(u32::MAX));
        Self {
            shift,
            starts,
            hashes: entries.iter().map(|(hash, _)| *hash).collect(),
            atoms: entries.iter().map(|(_, atom)| *atom).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    fn look_up(&self, hash: u64, found: &mut impl FnMut(Atom)) {
        let bucket = usize::try_from(hash >> self.shift).unwrap_or(usize::MAX);
        let (Some(&start), Some(&end)) = (self.starts.get(bucket), self.starts.get(bucket.wrapping_add(1))) else {
            return;
        };
        let range = start as usize..end as usize;
        let (Some(hashes), Some(atoms)) = (self.hashes.get(range.clone()), self.atoms.get(range)) else {
            return;
        };
        for (entry, atom) in hashes.iter().zip(atoms) {
            if *entry == hash {
                found(*atom);
            }
        }
    }
}
