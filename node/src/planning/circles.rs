//! The quote of secure sums over neighbourhoods: what nobody reads, and what ends a stream.

use undertone_protocol::plan::checked::Plan;

use crate::telling::table::number;

/// What is read, what is claimed of it, and what does better.
pub(super) fn better(plan: &Plan) -> String {
    let predicted = &plan.calibration().predicted;
    format!(
        "Nobody reads a message, but each node the sum of its neighbours' under masks; what is claimed holds \
         whatever becomes of these, so that its noise is that of local privacy, {} times the floor at n = {}; \
         circle = \"everybody\" gives each mean at about the floor",
        number(predicted.local / predicted.error_floor),
        plan.parties()
    )
}

/// What ends a stream, and for whom estimates are.
pub(super) const REMARKS: &str = "Each round is opened for one agreed set or for none: whoever vanishes is left out from then on, and more \
     than privacy.dropouts end the stream for everybody. One colluder can end it in any round, which nobody \
     can prove, and may have its sums of that round; nobody learns more by it. A node's estimates are for its \
     owner alone: shown to others they make it one reader more.";
