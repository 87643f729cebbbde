//! The number of a plan's members that have to sign a set.

/// The fewest signers that make a set agreed, of a plan's n members, c of whom collude and D of
/// whom depart at most.
///
/// **Two sets of one stage are never agreed.** Let q members have signed each of two sets. Then at
/// least 2q − n of them have signed both. Nobody signs twice who follows the protocol.
///
/// - With q > (n + c + D)/2 more than c + D have signed both: one of them neither colludes nor
///   departs, which cannot be. So it holds whatever the c and the D do, and whenever they do it:
///   the claims count the departed among the coalition, honest or not (Theorem R).
/// - With q > (n + c)/2 more than c have signed both: it holds if those who depart have followed
///   the protocol until then.
///
/// **All who are left reach it.** They are n − D. With the first rule q = ⌊(n + c + D)/2⌋ + 1 ≤
/// n − D exactly if (n + c + D)/2 < n − D, that is if n > c + 3D: it is taken there. With the
/// second q ≤ n − D exactly if n > c + 2D, which every plan is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    signers: usize,
    covers_departed: bool,
}

impl Quorum {
    /// The quorum of a plan of so many members, any of the numbers as large as it likes.
    pub fn of(parties: usize, colluding: usize, dropouts: usize) -> Self {
        let covers_departed = parties > dropouts.saturating_mul(3).saturating_add(colluding);
        let twice = if covers_departed { dropouts } else { 0 };
        Quorum {
            signers: parties.saturating_add(colluding).saturating_add(twice) / 2 + 1,
            covers_departed,
        }
    }

    /// q, the number of signers.
    pub fn signers(self) -> usize {
        self.signers
    }

    /// Whether the departed may have signed two sets, too.
    pub fn covers_departed(self) -> bool {
        self.covers_departed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way in which two sets can be signed by q members each, of a few members, some of whom
    /// sign both.
    fn two_sets_can_be_agreed(parties: u32, double: u32, signers: usize) -> bool {
        // Signers 0 … double − 1 sign both sets, each other one of them or none: the first set gets
        // `first` of the others, the second at most the rest.
        let others = parties - double;
        (0..=others).any(|first| {
            let (one, two) = (double + first, double + others - first);
            one as usize >= signers && two as usize >= signers
        })
    }

    #[test]
    fn no_two_sets_are_agreed_and_all_who_are_left_agree_on_one() {
        let mut covered = 0;
        for parties in 3..=40 {
            for colluding in 0..=parties {
                for dropouts in 0..=(parties - colluding) {
                    let quorum = Quorum::of(parties, colluding, dropouts);
                    let case = format!("{parties} {colluding} {dropouts}: {quorum:?}");
                    let against = match quorum.covers_departed() {
                        true => colluding + dropouts,
                        false => colluding,
                    };
                    let doubles = |signers| two_sets_can_be_agreed(parties as u32, against as u32, signers);
                    assert!(!doubles(quorum.signers()), "{case}");
                    assert!(doubles(quorum.signers() - 1), "no more than it takes: {case}");
                    // Whoever may depart, it is covered where that leaves it in reach.
                    let left = parties - dropouts;
                    let of_both = (parties + colluding + dropouts) / 2 + 1;
                    assert_eq!(quorum.covers_departed(), left >= of_both, "{case}");
                    if parties > colluding + 2 * dropouts {
                        assert!(left >= quorum.signers(), "{case}");
                    }
                    covered += usize::from(quorum.covers_departed() && dropouts > 0);
                }
            }
        }
        assert!(covered > 1_000, "{covered}");
    }

    #[test]
    fn small_plans_have_these() {
        let of = |parties, colluding, dropouts| {
            let quorum = Quorum::of(parties, colluding, dropouts);
            (quorum.signers(), quorum.covers_departed())
        };
        assert_eq!(of(3, 1, 0), (3, true));
        assert_eq!(of(4, 1, 1), (3, false));
        assert_eq!(of(5, 1, 1), (4, true));
        assert_eq!(of(8, 1, 1), (6, true));
        assert_eq!(of(8, 2, 2), (6, false));
        assert_eq!(of(9, 2, 2), (7, true));
        assert_eq!(of(1000, 100, 299), (700, true));
        assert_eq!(of(1000, 100, 300), (551, false));
        assert!(!Quorum::of(usize::MAX, usize::MAX, usize::MAX).covers_departed());
    }
}
