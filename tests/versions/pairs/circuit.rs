//! A circuit in which every ordered pair of values is a step.

/// Returns a closed walk over the complete directed graph of `nodes`, without the edges within the
/// last `refused` of them: every other ordered pair of nodes is a step exactly once. Begins at node
/// 0, which must not be one of the refused. Hierholzer's algorithm: each node has as many incoming
/// as outgoing edges.
pub(super) fn circuit(nodes: usize, refused: usize) -> Vec<usize> {
    let accepted = nodes - refused;
    let mut left: Vec<Vec<usize>> = (0..nodes)
        .map(|from| {
            let is_edge = |to: &usize| *to != from && (from < accepted || *to < accepted);
            (0..nodes).filter(is_edge).collect()
        })
        .collect();
    let (mut stack, mut walk) = (vec![0], Vec::new());
    while let Some(node) = stack.last() {
        match left[*node].pop() {
            Some(next) => stack.push(next),
            None => walk.extend(stack.pop()),
        }
    }
    walk.reverse();
    walk
}

#[test]
fn a_circuit_has_every_ordered_pair_of_which_one_is_accepted_once() {
    for (nodes, refused) in [(1, 0), (2, 0), (2, 1), (5, 0), (7, 3)] {
        let walk = circuit(nodes, refused);
        let mut steps: Vec<_> = walk.windows(2).map(|step| (step[0], step[1])).collect();
        let count = steps.len();
        steps.sort_unstable();
        steps.dedup();
        assert_eq!(steps.len(), count, "{walk:?}");
        assert_eq!(
            count,
            nodes * (nodes - 1) - refused * refused.saturating_sub(1)
        );
        assert_eq!(walk.first(), walk.last());
    }
}
