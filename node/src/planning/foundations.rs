//! What a plan rests on, and what those can do who break it: sentences for its quote
//! (protocol/docs/sealing.md).

use undertone_protocol::messages::commitment::MOST_REVEALS;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{ConnectivityBasis, DrawBasis, Faults};
use undertone_protocol::sealing::holders::Threshold;

use crate::reporting::table::at_most;

/// What the plan rests on, a sentence each.
pub fn sentences(plan: &Plan) -> Vec<String> {
    let mut reported = vec![];
    if let Ok(Some(threshold)) = plan.threshold(plan.parties()) {
        reported = sealed(plan, threshold);
    }
    reported.push(agreeing(plan));
    reported
}

/// How many may depart, and whether they must have followed the protocol until then.
pub(super) fn departures_tolerated(plan: &Plan) -> String {
    let privacy = &plan.draft().privacy;
    let provided = match privacy.quorum(plan.parties()).covers_departed() {
        true => "",
        false => ", if those who depart have followed the protocol until then",
    };
    match privacy.dropouts {
        0 => "no departure tolerated".to_owned(),
        1 => format!("one departure tolerated at any moment{provided}"),
        dropouts => format!("{dropouts} departures tolerated at any moment{provided}"),
    }
}

/// How many sign a set, and whose second signature makes no second one ([`Quorum`]).
///
/// [`Quorum`]: undertone_protocol::plan::quorum::Quorum
pub(super) fn agreeing(plan: &Plan) -> String {
    let (privacy, parties) = (&plan.draft().privacy, plan.parties());
    let quorum = privacy.quorum(parties);
    let signed = format!(
        "What is opened takes a set that {} of the {parties} parties have signed",
        quorum.signers()
    );
    if !quorum.covers_departed() {
        let enough = privacy.colluding + 3 * privacy.dropouts;
        let who = match privacy.colluding {
            0 => "",
            _ => ", whatever those who collude sign",
        };
        return format!(
            "{signed}: there are no two such sets{who}, if those who depart have followed the protocol until \
             then; to cover departed parties that signed two takes more than {enough} parties"
        );
    }
    let who = match (privacy.colluding, privacy.dropouts) {
        (0, 0) => "",
        (_, 0) => ", whatever those who collude sign",
        (0, _) => ", whatever those who depart sign",
        _ => ", whatever those sign who collude or depart",
    };
    format!("{signed}: there are no two such sets{who}")
}

fn sealed(plan: &Plan, threshold: Threshold) -> Vec<String> {
    let mut reported = vec![];
    let claims = plan.calibration().claims.iter();
    let basis = claims.clone().filter_map(|claim| claim.connectivity).next();
    reported.extend(basis.map(|basis| connected(plan, basis)));
    let draw = claims.filter_map(|claim| claim.draw).next();
    reported.extend(draw.map(drawn));
    reported.push(
        "Finals stay closed by sealing, which is computational: it holds against who cannot break X25519, \
         ChaCha20-Poly1305, SHA-256 or discrete logarithms"
            .into(),
    );
    reported.extend((!plan.mixes()).then(|| MASKED.into()));
    reported.extend(beyond(plan, threshold));
    reported.push(recovery(plan, threshold));
    if plan.draft().privacy.colluding > 0 {
        reported.push(
            "One colluder that deals bad letters and keeps its secret can end the run without a mean here, \
             while others may have opened it; the receipt then states the plan's ε, and running again costs \
             as much again and lets them choose between noisy means"
                .into(),
        );
    }
    reported
}

/// What masks of pairs lack that mixing has (protocol/docs/masks.md).
const MASKED: &str = "Masks are the stream of a cipher, under keys that both parties of a pair hold until the \
                      set is decided. INCA and PPSC remain preferable where what hides a value is to come from \
                      one party's randomness alone and not from a cipher, where finals are not to be sealed (a \
                      missing one costs INCA's Gaussian noise a finite error, and masks the mean), where a false \
                      word in a share is to be refused by its bound, and where parties meet few others, or for \
                      moments only";

/// The sentences as lines below a quote's tables.
pub(super) fn text(plan: &Plan) -> String {
    format!("\nWhat this rests on. {}.\n", sentences(plan).join(". "))
}

fn drawn(basis: DrawBasis) -> String {
    let DrawBasis {
        chance,
        tries,
        removed,
        share_faults,
        among,
    } = basis;
    let astray = match share_faults {
        0 => String::new(),
        1 => ", and for one share of the others that goes astray".to_owned(),
        faults => format!(", and for {faults} shares of the others that go astray"),
    };
    format!(
        "The schedule is drawn at START, from numbers that nobody chooses: for any {removed} parties that were \
         to collude or depart before that{astray}, a draw leaves some value hidden among fewer than {among} \
         with a chance of at most {chance:.1e}. A START that somebody ends by not revealing its number is \
         another draw: there are {tries} at most, since no node reveals more than {MOST_REVEALS} numbers for \
         one plan, and δ includes {tries} times that chance. Against who chooses by the schedule the κ that \
         the receipt states is what holds"
    )
}

fn connected(plan: &Plan, basis: ConnectivityBasis) -> String {
    let ConnectivityBasis {
        kappa,
        removed,
        share_faults,
        among,
    } = basis;
    if !plan.mixes() {
        return format!(
            "It takes κ = {kappa} parties to separate those who have masks in common, so that with any \
             {removed} against it each value is hidden among {among}"
        );
    }
    let faults = match share_faults {
        0 => "no share".to_owned(),
        1 => "one share".to_owned(),
        faults => format!("{faults} shares"),
    };
    format!(
        "It takes κ = {kappa} parties to separate those who share with each other, so that with any {removed} \
         against it and {faults} of the others gone astray each value is hidden among {among}"
    )
}

/// What those learn who are more than the plan covers.
fn beyond(plan: &Plan, threshold: Threshold) -> Option<String> {
    let mut claims = plan.calibration().claims.iter();
    let any = claims.find(|claim| claim.faults == Faults::Any)?;
    let (colluding, needed) = (plan.draft().privacy.colluding, threshold.needed());
    let opened = match needed {
        1 => "may separate others".to_owned(),
        _ => format!("may hold the {needed} shares that open a final, or separate others"),
    };
    Some(format!(
        "A coalition of more than {colluding} {opened}; whatever it does, it learns no more of a value than \
         Δ/σ* lets it: ε = {} at δ = {:e}",
        at_most(any.epsilon),
        any.delta
    ))
}

/// When a secret that its party did not tell is known all the same.
fn recovery(plan: &Plan, threshold: Threshold) -> String {
    let privacy = &plan.draft().privacy;
    let (colluding, removed) = (privacy.colluding, privacy.colluding + privacy.dropouts);
    let (needed, holders) = (threshold.needed(), threshold.holders());
    let shares = format!("{needed} of its {holders} holders");
    let enough = 2 * removed + 1;
    if removed == 0 {
        return "Nobody holds shares of a secret (colluding and dropouts are 0): a party that is gone after \
                its log ends the run without a mean"
            .into();
    }
    if colluding == 0 {
        return format!("A party that is gone after its log is opened by {shares}");
    }
    if plan.parties() >= enough {
        return format!(
            "A party that is gone after its log is opened by {shares}, even if all who collude refuse"
        );
    }
    format!(
        "A party that is gone after its log is opened by {shares} only with the help of those who collude: \
         without it takes {enough} parties"
    )
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::plan_of;

    fn reported(parties: usize, lines: &str) -> String {
        text(&plan_of(&format!("[data]\nshape = [2]\n{lines}"), parties, None))
    }

    #[test]
    fn masks_of_pairs_say_what_they_lack() {
        let masks = reported(8, "[mechanism]\nkind = \"pairwise\"\n");
        for words in [
            "κ = 7 parties to separate those who have masks in common",
            "INCA and PPSC remain preferable where",
        ] {
            assert!(masks.contains(words), "{words}: {masks}");
        }
        assert!(!masks.contains("gone astray"), "{masks}");
    }

    #[test]
    fn a_quote_names_what_breaks_it_and_how_much_that_costs() {
        let eight = reported(8, "");
        for words in [
            "with any 2 against it and",
            "X25519, ChaCha20-Poly1305, SHA-256 or discrete logarithms",
            "A coalition of more than 1 may hold the 3 shares that open a final",
            "ε = 2.66 at δ = 1e-6",
            "by 3 of its 4 holders, even if all who collude refuse",
            "others may have opened it",
            "running again costs as much again",
        ] {
            assert!(eight.contains(words), "{words}: {eight}");
        }
        assert_eq!(
            reported(8, "[run]\nsealed = false\n"),
            "\nWhat this rests on. What is opened takes a set that 6 of the 8 parties have signed: there are no \
             two such sets, whatever those sign who collude or depart.\n"
        );
    }

    /// n > colluding + 3·dropouts is what it takes.
    #[test]
    fn a_quote_says_whether_departed_parties_may_have_signed_twice() {
        let four = reported(4, "");
        for words in [
            "a set that 3 of the 4 parties have signed",
            "if those who depart have followed the protocol until then",
            "signed two takes more than 4 parties",
        ] {
            assert!(four.contains(words), "{words}: {four}");
        }
        let five = reported(5, "");
        assert!(
            five.contains("4 of the 5 parties")
                && five.contains("whatever those sign who collude or depart."),
            "{five}"
        );
        let none = reported(5, "[privacy]\ndropouts = 0\n");
        assert!(
            none.contains("4 of the 5 parties") && none.contains("whatever those who collude sign."),
            "{none}"
        );
    }

    /// n ≥ 2(colluding + dropouts) + 1 is what it takes.
    #[test]
    fn whose_help_a_missing_secret_takes_depends_on_the_number_of_parties() {
        let refused = "even if all who collude refuse";
        let four = reported(4, "");
        assert!(
            four.contains("only with the help of those who collude: without it takes 5 parties"),
            "{four}"
        );
        let five = reported(5, "");
        assert!(
            five.contains("by 3 of its 4 holders, ") && five.contains(refused),
            "{five}"
        );
        let nobody = reported(8, "[privacy]\ncolluding = 0\n");
        assert!(
            nobody.contains("by 2 of its 2 holders") && !nobody.contains("collude"),
            "{nobody}"
        );
        assert!(!nobody.contains("bad letters"), "{nobody}");
        let none = reported(8, "[privacy]\ncolluding = 0\ndropouts = 0\n");
        assert!(none.contains("Nobody holds shares of a secret"), "{none}");
    }
}
