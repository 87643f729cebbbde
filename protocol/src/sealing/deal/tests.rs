use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

use super::*;

/// A polynomial, its checked deal and the shares of as many parties.
fn dealt(
    threshold: usize,
    parties: usize,
    seed: u64,
) -> (Polynomial, CheckedDeal, BTreeMap<Party, [u8; 32]>) {
    let polynomial = Polynomial::draw(threshold, &mut ChaCha8Rng::seed_from_u64(seed));
    let deal = Deal {
        commitments: polynomial.commitments(),
        letters: vec![],
    };
    let checked = deal.check(threshold, 0).expect("a sound deal");
    let shares = (0..parties)
        .map(|party| (party, *polynomial.share(party)))
        .collect();
    (polynomial, checked, shares)
}

fn bytes(secret: Result<Secret, DealError>) -> Result<[u8; 32], DealError> {
    secret.map(|secret| *secret.to_bytes())
}

/// The group's order ℓ, little-endian: the least number that is no canonical scalar.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shares_as_many_as_the_threshold_recover_the_secret(
        (threshold, order, seed) in (1usize..=7).prop_flat_map(|threshold| {
            let parties: Vec<Party> = (0..threshold + 5).collect();
            (Just(threshold), Just(parties).prop_shuffle(), any::<u64>())
        }),
    ) {
        let (polynomial, deal, shares) = dealt(threshold, order.len(), seed);
        let of = |parties: &[Party]| -> BTreeMap<Party, [u8; 32]> {
            parties.iter().map(|party| (*party, shares[party])).collect()
        };
        let secret = *polynomial.secret().to_bytes();
        prop_assert_eq!(bytes(deal.recover(&of(&order[..threshold]))), Ok(secret));
        prop_assert_eq!(bytes(deal.recover(&shares)), Ok(secret));
        let few = DealError::Few { found: threshold - 1, needed: threshold };
        prop_assert_eq!(bytes(deal.recover(&of(&order[..threshold - 1]))), Err(few));
        for (party, share) in &shares {
            prop_assert_eq!(deal.check_share(*party, share), Ok(()));
        }
    }

    #[test]
    fn a_share_that_was_changed_anywhere_is_refused(bit in 0usize..256, holder in 0usize..6, seed: u64) {
        let (_, deal, shares) = dealt(3, 6, seed);
        let mut changed = shares[&holder];
        changed[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(deal.check_share(holder, &changed).is_err());
    }
}

#[test]
fn fewer_shares_lie_on_polynomials_of_any_secret() {
    // What two of three holders have fits each secret: through their shares and any K goes an f.
    let (_, _, shares) = dealt(3, 2, 1);
    let held: Vec<_> = shares
        .iter()
        .map(|(&k, share)| (Scalar::from(place(k)), scalar(share)))
        .collect();
    let [a, b] = &held[..] else { unreachable!() };
    for guess in [Scalar::ZERO, Scalar::ONE, Scalar::from(77u64)] {
        let values = [
            guess,
            **a.1.as_ref().expect("canonical"),
            **b.1.as_ref().expect("canonical"),
        ];
        let third = Scalar::from(9u64);
        // f(9) of the polynomial through (0, guess) and both shares: then all three give the guess.
        let places = [Scalar::ZERO, a.0, b.0];
        let mut value = Scalar::ZERO;
        for (at, own) in places.iter().enumerate() {
            let others = places.iter().enumerate().filter(|(other, _)| *other != at);
            let weight = others.fold(Scalar::ONE, |weight, (_, other)| {
                weight * (third - other) * (own - other).invert()
            });
            value += weight * values[at];
        }
        let points = [(a.0, values[1]), (b.0, values[2]), (third, value)];
        assert_eq!(at_zero(&points.map(|(x, y)| (x, Zeroizing::new(y)))), guess);
    }
}

#[test]
fn bad_shares_count_as_none_and_good_ones_of_others_still_recover() {
    let (polynomial, deal, mut shares) = dealt(3, 5, 2);
    // One of another party, one of another deal, one that is no scalar.
    let (_, _, elsewhere) = dealt(3, 5, 3);
    assert_eq!(
        deal.check_share(0, &shares[&1]),
        Err(DealError::Share { holder: 0 })
    );
    assert_eq!(
        deal.check_share(0, &elsewhere[&0]),
        Err(DealError::Share { holder: 0 })
    );
    assert_eq!(deal.check_share(0, &[0xff; 32]), Err(DealError::Scalar));
    shares.insert(0, shares[&1]);
    shares.insert(2, elsewhere[&2]);
    assert_eq!(bytes(deal.recover(&shares)), Ok(*polynomial.secret().to_bytes()));
    shares.insert(3, [0xff; 32]);
    assert_eq!(
        bytes(deal.recover(&shares)),
        Err(DealError::Few { found: 2, needed: 3 })
    );
}

#[test]
fn commitments_that_were_changed_refuse_every_share() {
    let (polynomial, _, shares) = dealt(3, 5, 4);
    for index in 0..3 {
        let mut commitments = polynomial.commitments();
        commitments[index] = dealt(1, 0, 9).0.commitments()[0];
        let deal = Deal {
            commitments,
            letters: vec![],
        };
        let deal = deal.check(3, 0).expect("points all the same");
        for (party, share) in &shares {
            assert_eq!(
                deal.check_share(*party, share),
                Err(DealError::Share { holder: *party })
            );
        }
        let known = deal.secret(&polynomial.secret().to_bytes());
        assert_eq!(
            known.is_ok(),
            index != 0,
            "the secret has a commitment of its own"
        );
        assert_eq!(
            bytes(deal.recover(&shares)),
            Err(DealError::Few { found: 0, needed: 3 })
        );
    }
}

#[test]
fn a_secret_is_checked_against_its_commitment() {
    let (polynomial, deal, shares) = dealt(2, 2, 5);
    let secret = *polynomial.secret().to_bytes();
    assert_eq!(bytes(deal.secret(&secret)), Ok(secret));
    assert_eq!(bytes(deal.secret(&shares[&0])), Err(DealError::Secret));
    assert_eq!(bytes(deal.secret(&[0; 32])), Err(DealError::Secret));
    assert_eq!(bytes(deal.secret(&ORDER)), Err(DealError::Scalar));
}

#[test]
fn scalars_have_one_encoding() {
    let mut below = ORDER;
    below[0] -= 1;
    assert!(Secret::from_bytes(&below).is_some());
    assert!(Secret::from_bytes(&ORDER).is_none());
    // K + ℓ means K modulo ℓ, in other bytes.
    let (polynomial, deal, shares) = dealt(1, 1, 6);
    let secret = *polynomial.secret().to_bytes();
    let mut carry = 0u16;
    let other: [u8; 32] = std::array::from_fn(|at| {
        carry += u16::from(secret[at]) + u16::from(ORDER[at]);
        let byte = carry as u8;
        carry >>= 8;
        byte
    });
    assert_eq!(bytes(deal.secret(&other)), Err(DealError::Scalar));
    assert_eq!(deal.check_share(0, &other), Err(DealError::Scalar));
    assert_eq!(deal.check_share(0, &shares[&0]), Ok(()));
    let mut high = *polynomial.secret().to_bytes();
    high[31] |= 0x80;
    assert_eq!(bytes(deal.secret(&high)), Err(DealError::Scalar));
    assert!(Polynomial::from_coefficients(&[[0; 32], ORDER]).is_none());
    assert!(Polynomial::from_coefficients(&[]).is_none());
}

#[test]
fn points_have_one_encoding() {
    let (polynomial, ..) = dealt(2, 0, 7);
    let sound = polynomial.commitments();
    // The field's order p and what lies above, an odd ("negative") coordinate, the highest bit.
    let mut order = [0xff; 32];
    (order[0], order[31]) = (0xed, 0x7f);
    let mut negative = [0; 32];
    negative[0] = 1;
    let mut high = sound[1];
    high[31] |= 0x80;
    for bad in [order, [0xff; 32], negative, high] {
        for index in 0..2 {
            let mut commitments = sound.clone();
            commitments[index] = bad;
            let deal = Deal {
                commitments,
                letters: vec![],
            };
            assert_eq!(deal.check(2, 0), Err(DealError::Point { index }), "{bad:?}");
        }
    }
}

#[test]
fn counts_are_exact() {
    let deal = |commitments: usize, letters: usize| Deal {
        commitments: vec![dealt(1, 0, 8).0.commitments()[0]; commitments],
        letters: vec![[0; LETTER_BYTES]; letters],
    };
    assert!(deal(3, 4).check(3, 4).is_ok());
    for found in [0, 2, 4] {
        let refused = deal(found, 4).check(3, 4);
        assert_eq!(refused, Err(DealError::Commitments { found, expected: 3 }));
    }
    for found in [0, 3, 5] {
        let refused = deal(3, found).check(3, 4);
        assert_eq!(refused, Err(DealError::Letters { found, expected: 4 }));
    }
    let nothing = DealError::Commitments {
        found: 0,
        expected: 0,
    };
    assert_eq!(deal(0, 0).check(0, 0), Err(nothing), "a secret has a commitment");
}

#[test]
fn holders_read_their_shares_in_the_dealers_letters() {
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let keys: Vec<RunKey> = (0..5).map(|_| RunKey::draw(&mut rng)).collect();
    let dealer = Dealer {
        key: &keys[2],
        party: 2,
        digest: &[1; 32],
        round: 3,
    };
    let holders = [4usize, 0, 3, 1].map(|party| (party, *keys[party].public()));
    let (secret, deal) = dealer.deal(3, &holders, &mut rng);
    let checked = deal.check(3, 4).expect("a sound deal");
    let mut shares = BTreeMap::new();
    for (letter, (to, _)) in deal.letters.iter().zip(holders) {
        let envelope = Envelope {
            digest: &[1; 32],
            round: 3,
            from: 2,
            to,
        };
        let share = letter::read(&keys[to], keys[2].public(), &envelope, letter).expect("its own");
        shares.insert(to, *share);
    }
    assert_eq!(bytes(checked.recover(&shares)), Ok(*secret.to_bytes()));
    assert_eq!(bytes(checked.secret(&secret.to_bytes())), Ok(*secret.to_bytes()));
}

#[test]
fn one_is_enough_where_nobody_may_fail_and_nobody_holds() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let key = RunKey::draw(&mut rng);
    let dealer = Dealer {
        key: &key,
        party: 0,
        digest: &[1; 32],
        round: 0,
    };
    let (secret, deal) = dealer.deal(1, &[], &mut rng);
    let checked = deal.check(1, 0).expect("a sound deal");
    assert_eq!(checked.threshold(), 1);
    assert_eq!(bytes(checked.secret(&secret.to_bytes())), Ok(*secret.to_bytes()));
}

#[test]
fn small_multiples_are_those_of_scalars() {
    let point = RistrettoPoint::mul_base(&Scalar::from(5u64));
    for times in [0, 1, 2, 3, 200, 65_537, u64::MAX] {
        assert_eq!(multiple(&point, times), point * Scalar::from(times), "{times}");
    }
}
