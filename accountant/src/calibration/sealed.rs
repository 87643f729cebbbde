//! Changes to claims and predictions where finals are sealed (protocol/docs/sealing.md).
//!
//! A claim that rests on a final staying closed until an agreed set is opened holds against those
//! who cannot break the sealing, and who hold fewer shares of a secret than make it known. The
//! theorem of local noise, Δ/σ*, needs none of that. And a party that leaves right after its log is
//! in the mean, as long as its secret has holders.

use undertone_protocol::plan::claim::{Claim, Faults, Predicted};
use undertone_protocol::plan::computation::rounds::ReleaseKind;
use undertone_protocol::plan::draft::Draft;

/// The claims of a draft's setting, as distinct from those that hold whatever becomes of the
/// sealing.
///
/// The loss before publishing is bounded for coalitions of up to `colluding` only. A larger one may
/// hold enough shares of a secret to open finals without anybody's agreement, and then learns as
/// much as the theorem says.
pub(crate) fn claims_when_sealed(draft: &Draft, claims: Vec<Claim>) -> Vec<Claim> {
    if !draft.run.sealed {
        return claims;
    }
    let marked = |claim: Claim| {
        let size = match claim.faults {
            Faults::BeforePublishing => claim.size.min(draft.privacy.colluding),
            _ => claim.size,
        };
        Claim {
            size,
            sealed: claim.faults != Faults::Any,
            ..claim
        }
    };
    claims.into_iter().map(marked).collect()
}

/// Errors of the result in the data's unit, from those of a mean in a state's units. A sum is a
/// mean times the weight of all; without one party it has one noise less, whoever that is. The last
/// row of a stream is the means of all its releases, added up.
pub(crate) fn of_result(draft: &Draft, predicted: Predicted) -> Predicted {
    let predicted = predicted.times(draft.data.scales().root_mean_square());
    if draft.sums_everybody() {
        return predicted.times((draft.releases() as f64).sqrt());
    }
    if draft.computation.result() == ReleaseKind::Mean {
        return predicted;
    }
    let parties = draft.parties() as f64;
    let sum = predicted.times(draft.total_weight());
    let one_less = sum.standard_error * ((parties - 1.0) / parties).sqrt();
    Predicted {
        standard_error_one_dropout: sum.standard_error_one_dropout.map(|_| one_less),
        standard_error_correcting: sum.standard_error_correcting.map(|_| one_less),
        ..sum
    }
}

/// Returns the prediction for a draft, changed where its finals are sealed.
///
/// A party that leaves right after its log is in the mean, unless nobody holds a share of its
/// secret. (Nobody does if nobody colludes and no departure is tolerated.) A party that leaves
/// while it owes a correction is out of the mean, as one that departed in mixing.
pub(crate) fn predicted_when_sealed(draft: &Draft, predicted: Predicted) -> Predicted {
    if !draft.run.sealed {
        return predicted;
    }
    let has_holders = draft.privacy.colluding + draft.privacy.dropouts > 0;
    Predicted {
        standard_error_late_dropout: has_holders.then_some(predicted.standard_error),
        standard_error_correcting: predicted.standard_error_one_dropout,
        ..predicted
    }
}
