//! Making lists and numbers smaller for as long as a test passes.

/// The list without what the test passes without: first half of it at a time, then ever smaller chunks, in the end one by one from the back until
/// none can go. The test has to pass for the whole list.
pub(super) fn chunks_out<T: Clone>(
    mut list: Vec<T>,
    mut passes: impl FnMut(&[T]) -> bool,
) -> Vec<T> {
    if list.is_empty() || passes(&[]) {
        return Vec::new();
    }
    let mut chunk = list.len().div_ceil(2);
    loop {
        let mut any = false;
        let mut end = list.len();
        while end > 0 {
            let start = end.saturating_sub(chunk);
            // The empty list was tried.
            if end - start < list.len() {
                let rest: Vec<T> = list[..start].iter().chain(&list[end..]).cloned().collect();
                if passes(&rest) {
                    list = rest;
                    any = true;
                }
            }
            end = start;
        }
        if chunk > 1 {
            chunk = chunk.div_ceil(2);
        } else if !any {
            return list;
        }
    }
}

/// A number below `now` with which the test passes, or `now`: the least if the test passes from some number on.
pub(super) fn fewer(now: u32, mut passes: impl FnMut(u32) -> bool) -> u32 {
    let (mut low, mut high) = (1, now);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Of what has to be there together nothing else is left.
        #[test]
        fn exactly_what_is_needed_is_left(
            length in 0..120_usize,
            needed in prop::collection::btree_set(0..120_usize, 0..6),
        ) {
            let needed: Vec<usize> = needed.into_iter().filter(|&index| index < length).collect();
            let left = chunks_out((0..length).collect(), |list| {
                needed.iter().all(|index| list.contains(index))
            });
            prop_assert_eq!(left, needed);
        }

        /// Where parts depend on each other, what is left passes, and nothing of it can go alone.
        #[test]
        fn nothing_of_what_is_left_can_go_alone(sum in 1..200_u32, list in prop::collection::vec(1..20_u32, 0..40)) {
            prop_assume!(list.iter().sum::<u32>() >= sum);
            let passes = |list: &[u32]| list.iter().sum::<u32>() >= sum;
            let left = chunks_out(list, passes);
            prop_assert!(passes(&left));
            for index in 0..left.len() {
                let mut less = left.clone();
                less.remove(index);
                prop_assert!(!passes(&less));
            }
        }

        #[test]
        fn the_least_number_is_found(now in 0..500_u32, least in 1..500_u32) {
            let expected = if least <= now { least } else { now };
            prop_assert_eq!(fewer(now, |number| number >= least), expected);
        }
    }

    /// 200 parts of which two are needed take far fewer tests than pairs.
    #[test]
    fn few_tests_are_needed() {
        let mut tests = 0;
        let left = chunks_out((0..200).collect(), |list: &[usize]| {
            tests += 1;
            list.contains(&17) && list.contains(&170)
        });
        assert_eq!(left, [17, 170]);
        assert!(tests < 60, "{tests}");
    }
}
