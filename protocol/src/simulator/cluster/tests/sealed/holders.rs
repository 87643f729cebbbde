//! The secrets that a coalition of holders can open by itself, from letters that everybody has
//! seen.

use super::*;
use crate::messages::log::SealTerms;
use crate::publishing::opening::{Dealt, Kept};
use crate::sealing::holders::HolderOrder;
use crate::sealing::run_key::RunKey;

/// The run key that a simulated party has drawn for its start.
fn run_key(seed: u64, party: Party) -> RunKey {
    RunKey::draw(&mut stream(seed, "run key", party))
}

/// Whether these holders alone, with all letters in the agreed logs, find out the secret of
/// `dealer`.
fn find_out(plan: &Plan, seed: u64, logs: &AgreedLogs, (dealer, coalition): (Party, &[Party])) -> bool {
    let threshold = plan.threshold(8).expect("enough").expect("it seals");
    let sealed = logs[&dealer].sealed.as_ref().expect("it seals");
    let terms = SealTerms {
        threshold,
        bytes: sealed.bytes,
    };
    let deal = logs[&dealer]
        .check_sealed(Some(&terms))
        .expect("good")
        .expect("a deal");
    let order = HolderOrder::draw(plan.schedule_seed().expect("drawn"), 8);
    let holders = order.holders(dealer, &(0..8).collect(), threshold);
    let dealt = Dealt { deal, holders };
    let author = *run_key(seed, dealer).public();
    let mut shares = BTreeMap::new();
    for &holder in coalition {
        let mut kept = Kept::new(holder, 0, None);
        let key = Arc::new(run_key(seed, holder));
        kept.keep_letter(&key, plan.digest(), (dealer, &author), &sealed.deal, &dealt);
        let share = kept.share(dealer, &dealt);
        shares.extend(share.map(|share| (holder, share.expect("an honest letter opens"))));
    }
    dealt.deal.recover(&shares).is_ok()
}

/// Every coalition of colluders and departed, and every one that is larger by one.
#[test]
fn as_many_as_collude_and_depart_open_nothing_alone_and_one_more_may() {
    let plan = plan(8, SEALED, 3);
    let report = run(&plan, 3, vec![]);
    let logs = outcome(&report, 0).logs.clone().expect("agreed");
    let (mut pairs, mut triples, mut found) = (0, 0, 0);
    for dealer in 0..8 {
        for a in 0..8 {
            for b in a + 1..8 {
                let pair = [a, b];
                if pair.contains(&dealer) {
                    continue;
                }
                pairs += 1;
                assert!(
                    !find_out(&plan, 3, &logs, (dealer, &pair)),
                    "{dealer} by {pair:?}"
                );
                for c in (b + 1..8).filter(|&c| c != dealer) {
                    triples += 1;
                    found += u32::from(find_out(&plan, 3, &logs, (dealer, &[a, b, c])));
                }
            }
        }
    }
    // Of the four holders of each of eight any three know its secret.
    assert_eq!((pairs, triples, found), (8 * 21, 8 * 35, 8 * 4));
}
