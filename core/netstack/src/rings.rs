//! Sizes of the buffers of a TCP flow. A ring can't be resized (its capacity sets the window scale
//! in the SYN-ACK), so it is chosen when the flow begins, by the number of flows that live then.

/// Most bytes that one direction of one flow may hold.
pub(crate) const LARGEST: usize = 1 << 20;
/// What each direction gets when there are very many flows.
pub(crate) const SMALLEST: usize = 64 << 10;

/// Bytes of each of the two rings of a flow that joins `live` others. Pages that are never touched
/// cost nothing; the steps keep a hundred flows that fill theirs in one direction under 30 MiB.
pub(crate) fn capacity(live: usize) -> usize {
    match live {
        0..4 => LARGEST,
        4..16 => LARGEST / 2,
        16..64 => LARGEST / 4,
        64..256 => LARGEST / 8,
        _ => SMALLEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_flows_stay_under_thirty_mebibytes() {
        let total: usize = (0..100).map(capacity).sum();
        assert!(total <= 30 << 20, "{total}");
        assert_eq!(capacity(100_000), SMALLEST);
    }
}
