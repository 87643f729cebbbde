//! Plans that others propose, byte for byte as they came: what is accepted is what is verified,
//! hashed and joined.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::daemon::damaged::Damaged;
use crate::daemon::kept::{self, Kept};
use crate::daemon::ledger::now_ms;
use crate::daemon::refusal::{Kind, Refusal, unwritten};
use crate::daemon::state::{checksum, write_record, write_whole};
use crate::daemon::status::{OfferState, OfferStatus};
use crate::party::spent::make_folders;
use crate::reporting::failure::Failure;

/// Offers that are kept; of more, the oldest that are not open go. Our choice: many more than an
/// operator looks through.
const MOST_OFFERS: usize = 128;

/// Offers of one proposer that may be open: so that no peer keeps another's out. Our choice.
const MOST_OF_A_PROPOSER: usize = 8;

/// Plans that others offered, in memory and on disk.
pub(super) struct Offers {
    folder: PathBuf,
    known: Mutex<BTreeMap<String, OfferStatus>>,
    /// Records of offers that are not what was written.
    pub(super) damaged: Damaged,
}

impl Offers {
    /// Reads them; damaged ones are skipped. Refused (exit 2) if the folder cannot be read.
    pub(super) fn open(folder: PathBuf) -> Result<Self, Failure> {
        let refused = |e: std::io::Error| {
            Failure::usage(format!("{}: cannot be read: {e}", folder.display())).field("state")
        };
        let (mut known, damaged) = (BTreeMap::new(), Damaged::default());
        for entry in std::fs::read_dir(&folder).map_err(refused)? {
            let record = entry.map_err(refused)?.path().join("offer.json");
            if record.exists()
                && let Some(offer) = damaged.record(&record, |offer: &OfferStatus| &offer.digest)
            {
                known.insert(offer.digest.clone(), offer);
            }
        }
        Ok(Offers {
            folder,
            known: Mutex::new(known),
            damaged,
        })
    }

    /// As they are at this moment: who has not answered in time has not answered.
    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, OfferStatus>> {
        let (mut known, now) = (
            self.known.lock().unwrap_or_else(PoisonError::into_inner),
            now_ms(),
        );
        for offer in known.values_mut() {
            if offer.state == OfferState::Open && offer.expires_ms <= now {
                offer.state = OfferState::Expired;
            }
        }
        known
    }

    /// Keeps an offer with its plan's very text. One that is known already stays as it is; refused
    /// if too many are open, of this proposer or of all.
    pub(super) fn insert(&self, offer: OfferStatus, plan: &str) -> Result<(), Refusal> {
        let mut known = self.known();
        if known.contains_key(&offer.digest) {
            return Ok(());
        }
        has_room_for(&known, &offer.proposer)?;
        if known.len() >= MOST_OFFERS {
            let is_kept = |offer: &&OfferStatus| kept::record(&self.folder.join(&offer.digest)).exists();
            let settled = known.values().filter(|offer| offer.state != OfferState::Open);
            let settled = settled.filter(|offer| !is_kept(offer));
            let Some(oldest) = settled
                .min_by_key(|offer| offer.received_ms)
                .map(|offer| offer.digest.clone())
            else {
                return Err(
                    Refusal::new(Kind::Busy, format!("{MOST_OFFERS} offers wait for an answer")).hint(ANSWER),
                );
            };
            self.remove(&mut known, &oldest);
        }
        let folder = self.folder.join(&offer.digest);
        make_folders(&folder)
            .and_then(|()| write_whole(&folder.join("plan.json"), plan.as_bytes()))
            .and_then(|()| write_record(&folder.join("offer.json"), &offer))
            .map_err(|e| unwritten(&folder, &e))?;
        self.damaged.forget(&folder.join("offer.json"));
        known.insert(offer.digest.clone(), offer);
        Ok(())
    }

    /// The folder of an offer's files.
    pub(super) fn folder(&self, digest: &str) -> PathBuf {
        self.folder.join(digest)
    }

    /// The records of offers that were accepted and whose runs have not begun.
    pub(super) fn kept(&self) -> Vec<(OfferStatus, Kept)> {
        let kept = |offer: OfferStatus| {
            let record = kept::record(&self.folder.join(&offer.digest));
            let found = record
                .exists()
                .then(|| self.damaged.record(&record, |kept: &Kept| &kept.digest));
            Some((offer, found.flatten()?))
        };
        self.all().into_iter().filter_map(kept).collect()
    }

    /// Drops an offer that nobody but this node knows of.
    pub(super) fn forget(&self, digest: &str) {
        self.remove(&mut self.known(), digest);
    }

    fn remove(&self, known: &mut BTreeMap<String, OfferStatus>, digest: &str) {
        if known.remove(digest).is_some() {
            let _ = std::fs::remove_dir_all(self.folder.join(digest));
        }
    }

    /// Refused if too many offers of this proposer wait for an answer.
    pub(super) fn has_room_for(&self, proposer: &str) -> Result<(), Refusal> {
        has_room_for(&self.known(), proposer)
    }

    /// Says what became of it.
    pub(super) fn settle(&self, digest: &str, state: OfferState, reason: Option<String>) {
        let mut known = self.known();
        let Some(offer) = known.get_mut(digest) else {
            return;
        };
        (offer.state, offer.reason) = (state, reason);
        if let Err(error) = write_record(&self.folder.join(digest).join("offer.json"), offer) {
            tracing::error!(%error, digest, "what became of an offer cannot be written");
        }
    }

    /// The offer of the plan with this digest.
    pub(super) fn get(&self, digest: &str) -> Option<OfferStatus> {
        self.known().get(digest).cloned()
    }

    /// All, the newest first.
    pub(super) fn all(&self) -> Vec<OfferStatus> {
        let mut offers: Vec<_> = self.known().values().cloned().collect();
        offers.sort_by_key(|offer| std::cmp::Reverse(offer.received_ms));
        offers
    }

    /// The bytes of an offer's plan.
    pub(super) fn plan(&self, digest: &str) -> Result<Vec<u8>, Refusal> {
        let path = self.folder.join(digest).join("plan.json");
        let bytes = std::fs::read(&path)
            .ok()
            .filter(|bytes| checksum(bytes) == digest);
        bytes.ok_or_else(|| {
            Refusal::new(
                Kind::Internal,
                format!(
                    "{}: the offered plan is not what was offered any more",
                    path.display()
                ),
            )
            .hint("ask its proposer to offer it again")
        })
    }
}

/// How offers come to be no longer open.
const ANSWER: &str = "answer some of them: undertone accept DIGEST, or undertone decline DIGEST; one that nobody \
                      answers ends by its run.accept_by";

fn has_room_for(known: &BTreeMap<String, OfferStatus>, proposer: &str) -> Result<(), Refusal> {
    let open = |kept: &&OfferStatus| kept.state == OfferState::Open && kept.proposer == proposer;
    if known.values().filter(open).count() < MOST_OF_A_PROPOSER {
        return Ok(());
    }
    let what = format!("{MOST_OF_A_PROPOSER} offers of {proposer} wait for an answer");
    Err(Refusal::new(Kind::Busy, what).hint(ANSWER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(number: u8, proposer: &str, expires_ms: u64) -> OfferStatus {
        OfferStatus {
            digest: format!("{number:064x}"),
            name: "offered".into(),
            proposer: proposer.into(),
            state: OfferState::Open,
            reason: None,
            parties: 3,
            dimension: 1,
            unit: "party".into(),
            epsilon_claimed: Some(1.0),
            delta: 1e-6,
            received_ms: u64::from(number),
            expires_ms,
        }
    }

    #[test]
    fn a_proposer_has_so_many_open_offers_and_those_end() {
        let folder = tempfile::tempdir().unwrap();
        let offers = Offers::open(folder.path().to_owned()).unwrap();
        let later = now_ms() + 3_600_000;
        for number in 0..MOST_OF_A_PROPOSER as u8 {
            offers.insert(offer(number, "bob", later), "plan").unwrap();
        }
        let refused = offers.insert(offer(100, "bob", later), "plan").unwrap_err();
        assert_eq!(refused.kind, Kind::Busy);
        offers.has_room_for("bob").unwrap_err();
        offers.insert(offer(101, "carol", 1), "plan").unwrap();
        let expired = offers.get(&offer(101, "carol", 1).digest).unwrap();
        assert_eq!(expired.state, OfferState::Expired, "nobody answered in time");
        // An answer makes room, and so does an end.
        offers.settle(&offer(0, "bob", later).digest, OfferState::Declined, None);
        offers.insert(offer(102, "bob", 1), "plan").unwrap();
        offers.insert(offer(103, "bob", later), "plan").unwrap();
        // Also for a daemon that has started again.
        let again = Offers::open(folder.path().to_owned()).unwrap();
        assert_eq!(again.get(&expired.digest).unwrap().state, OfferState::Expired);
    }

    #[test]
    fn of_too_many_offers_the_oldest_settled_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let offers = Offers::open(folder.path().to_owned()).unwrap();
        let later = now_ms() + 3_600_000;
        let proposer = |number: u8| format!("peer-{}", number as usize / MOST_OF_A_PROPOSER);
        // The oldest of all is open, the newest settled first.
        for number in 0..MOST_OFFERS as u8 {
            offers
                .insert(offer(number, &proposer(number), later), "plan")
                .unwrap();
        }
        let digest = |number: u8| offer(number, "", 0).digest;
        let refused = offers.insert(offer(200, "late", later), "plan").unwrap_err();
        assert_eq!(refused.kind, Kind::Busy, "all of them wait for an answer");
        for number in [120, 7, 60] {
            offers.settle(&digest(number), OfferState::Declined, None);
        }
        for (new, forgotten) in [(201, 7), (202, 60), (203, 120)] {
            offers.insert(offer(new, "late", later), "plan").unwrap();
            assert!(
                offers.get(&digest(forgotten)).is_none() && !folder.path().join(digest(forgotten)).exists()
            );
            assert_eq!(offers.all().len(), MOST_OFFERS);
        }
        assert!(offers.get(&digest(0)).is_some(), "one that is open stays");
    }

    #[test]
    fn an_offer_that_is_forgotten_makes_room_and_is_gone_after_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let offers = Offers::open(folder.path().to_owned()).unwrap();
        let later = now_ms() + 3_600_000;
        for number in 0..3 * MOST_OF_A_PROPOSER as u8 {
            offers.insert(offer(number, "bob", later), "plan").unwrap();
            offers.forget(&offer(number, "bob", later).digest);
        }
        offers.forget("unknown");
        assert!(offers.all().is_empty() && Offers::open(folder.path().to_owned()).unwrap().all().is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_plan_that_is_not_what_was_offered_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let offers = Offers::open(folder.path().to_owned()).unwrap();
        let plan = "{\"version\": 1}";
        let digest = checksum(plan.as_bytes());
        let offered = OfferStatus {
            digest: digest.clone(),
            ..offer(0, "bob", now_ms() + 3_600_000)
        };
        offers.insert(offered, plan).unwrap();
        assert_eq!(offers.plan(&digest).unwrap(), plan.as_bytes());
        let place = folder.path().join(&digest).join("plan.json");
        for changed in [plan.replace('1', "2"), format!("{plan}\n"), String::new()] {
            std::fs::write(&place, changed).unwrap();
            assert_eq!(offers.plan(&digest).unwrap_err().kind, Kind::Internal);
        }
        std::fs::remove_file(&place).unwrap();
        offers.plan(&digest).unwrap_err();
    }

    #[test]
    fn a_proposer_does_not_learn_where_offers_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("offers");
        std::fs::create_dir(&place).unwrap();
        let offers = Offers::open(place.clone()).unwrap();
        // Nothing can be kept in a file.
        std::fs::remove_dir(&place).unwrap();
        std::fs::write(&place, "").unwrap();
        let refused = offers.insert(offer(0, "bob", u64::MAX), "plan").unwrap_err();
        let ours = folder.path().display().to_string();
        assert!(refused.message.contains(&ours), "the operator is: {refused}");
        let reported = refused.for_others();
        assert!(
            !reported.contains(&ours) && reported.contains("cannot keep it"),
            "{reported}"
        );
    }
}
