//! Bipartite matching of maximum weight, by the Hungarian algorithm in O(rows² · columns).

/// The column of each row in a matching of maximum total weight. Only edges with a positive weight
/// count; a row without one is unmatched.
pub(crate) fn heaviest(rows: usize, columns: usize, weight: &[f64]) -> Vec<Option<usize>> {
    assert_eq!(weight.len(), rows * columns, "a weight for each pair");
    if columns < rows {
        let turned: Vec<f64> = (0..columns)
            .flat_map(|column| (0..rows).map(move |row| weight[row * columns + column]))
            .collect();
        let mut found = vec![None; rows];
        for (column, row) in heaviest(columns, rows, &turned).into_iter().enumerate() {
            if let Some(row) = row {
                found[row] = Some(column);
            }
        }
        return found;
    }
    // Potentials and matched rows; index 0 is a helper before the first row and column.
    let mut by_row = vec![0.0; rows + 1];
    let mut by_column = vec![0.0; columns + 1];
    let mut matched = vec![0; columns + 1];
    for row in 1..=rows {
        matched[0] = row;
        let mut at = 0;
        let mut slack = vec![f64::INFINITY; columns + 1];
        let mut previous = vec![0; columns + 1];
        let mut seen = vec![false; columns + 1];
        // Grow a tree of tight edges until it reaches a free column.
        while matched[at] != 0 {
            seen[at] = true;
            let (from, mut step, mut next) = (matched[at], f64::INFINITY, 0);
            for column in (1..=columns).filter(|&column| !seen[column]) {
                let cost = -weight[(from - 1) * columns + column - 1];
                let reduced = cost - by_row[from] - by_column[column];
                if reduced < slack[column] {
                    slack[column] = reduced;
                    previous[column] = at;
                }
                if slack[column] < step {
                    step = slack[column];
                    next = column;
                }
            }
            for column in 0..=columns {
                if seen[column] {
                    by_row[matched[column]] += step;
                    by_column[column] -= step;
                } else {
                    slack[column] -= step;
                }
            }
            at = next;
        }
        // Flip the path.
        while at != 0 {
            matched[at] = matched[previous[at]];
            at = previous[at];
        }
    }
    let mut found = vec![None; rows];
    for column in 1..=columns {
        if let Some(row) = matched[column].checked_sub(1)
            && weight[row * columns + column - 1] > 0.0
        {
            found[row] = Some(column - 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// The largest total weight, by trying every matching.
    fn brute_force(rows: usize, columns: usize, weight: &[f64], used: u32) -> f64 {
        let Some(row) = rows.checked_sub(1) else { return 0.0 };
        let free = (0..columns).filter(|column| used & (1 << column) == 0);
        let with = free.map(|column| {
            let rest = brute_force(row, columns, weight, used | (1 << column));
            weight[row * columns + column] + rest
        });
        with.fold(brute_force(row, columns, weight, used), f64::max)
    }

    #[test]
    fn the_weight_is_that_of_brute_force() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2_000 {
            let (rows, columns) = (random.random_range(0..6), random.random_range(0..6));
            let edge = |_| if random.random_bool(0.3) { 0 } else { random.random_range(1..20) };
            let weight: Vec<f64> = (0..rows * columns).map(edge).map(f64::from).collect();
            let found = heaviest(rows, columns, &weight);
            let mut taken: Vec<usize> = found.iter().flatten().copied().collect();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), found.iter().flatten().count(), "one row per column");
            let total: f64 = (0..rows)
                .filter_map(|row| found[row].map(|column| weight[row * columns + column]))
                .sum();
            assert_eq!(
                total,
                brute_force(rows, columns, &weight, 0),
                "{rows} {columns} {weight:?}"
            );
        }
    }

    #[test]
    fn a_greedy_choice_can_be_wrong() {
        // The heaviest edge (0, 0) leaves nothing for row 1.
        assert_eq!(heaviest(2, 2, &[5.0, 4.0, 4.0, 0.0]), [Some(1), Some(0)]);
    }
}
