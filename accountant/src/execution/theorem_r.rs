//! Theorem R: why a coalition may count the departed as its own, present to the end.
//!
//! **Theorem R.** Let C collude and D depart, in any way, adaptively, at any moment before the
//! finals, honest or not. Fix the schedule, the fates of shares between survivors and the rounds
//! that survivors skip, chosen without the survivors' hidden values. Then the loss of any party
//! outside C ∪ D is at most its loss against C ∪ D in the run with the same schedule and the same
//! fates among survivors, in which D stays. It holds with and without roll-back.
//!
//! *Proof.* Call the real run ρ and the other one ρ′, and take the same x̃ᵢ and ηᵢ of each survivor
//! i in both. Let K be what C ∪ D hold in ρ′ when it ends: all that they injected and all that
//! survivors sent to them. Claim: at the end of each round t, for every survivor i, yᵢ(ρ) − yᵢ(ρ′)
//! is a linear function of K and of D's behaviour in ρ.
//!
//! By induction over t. At t = 0 the difference is 0: a survivor's first injection is its own in
//! both. In round t survivor i divides its state by the same k + 1 in both; let Eᵢ be the
//! difference before, by induction a known function of K. What i sends to another survivor differs
//! by Eᵢ/(k + 1), and is kept, returned or accepted in the same round in both, since fates among
//! survivors are fixed: these differences propagate as known functions. What i deducts for a member
//! of D, or gets back from it, or adds from it, is in ρ′ a vector that C ∪ D sent or received,
//! hence a function of K; in ρ what i sends to D is the same share plus Eᵢ/(k + 1), hence a
//! function of K; what it gets from D is a function of what D holds in ρ, which D computed from its
//! own injections and from what it received in ρ, all functions of K by induction. Its injection of
//! round t is the same in both, as the rounds that it skips are fixed and no injection depends on
//! what arrived. The claim follows for t.
//!
//! So every share that C ∪ D see in ρ is a share that they see in ρ′ plus a function of K, and
//! every final of a survivor in ρ is its final in ρ′ plus a function of K: without roll-back
//! directly; with it, because what is re-added for D and subtracted from D is made of the shares
//! above. Hence the view in ρ, of C alone or of C ∪ D, whether D's finals are seen or not, is a
//! function of the view of C ∪ D in ρ′, which also sees the finals of all survivors. Fates that D
//! or C choose adaptively are functions of that view as well. By the data-processing inequality the
//! loss cannot be larger. ∎
//!
//! *For PPSC* the same induction goes through; only what a share is differs. In the round t in
//! which survivor i hands out, it sends ω = yᵢ − γ and keeps γ, its own fresh noise, the same γ in
//! both runs (γ of its hand-out of round t; one that i would not draw in ρ, finding its receiver
//! gone, is as good as drawn and taken back). Let Eᵢ be the difference of its states before, a
//! known function of K. If the receiver is a survivor, ω differs by Eᵢ and joins it, is kept, or
//! comes back, in the same round in both; after the hand-out i's difference is 0, and Eᵢ travels
//! with ω: known functions again. If the receiver is in D: in ρ′ ω joins it, so that C ∪ D know ω,
//! and i keeps γ; in ρ i's ω is that one plus Eᵢ, known, and i keeps γ, or γ plus ω once it has
//! come back. Either way the difference of i's states is 0 or a known vector. What comes from D, or
//! back to it, is as above. Roll-back re-adds to i what it sent to D and subtracts what it got from
//! D: ω's that C ∪ D know. Nothing else was used of INCA: a state is what its party put in, plus
//! what came, minus what left, so that what is in one place in one run and in another in the other
//! is a share, and shares of which one end is in D are known. (The weights of ω are public.)
//!
//! It needs one set D for all who publish: two survivors who roll back different sets do not fit
//! one ρ′. That is what agreeing on the logs is for, and why D's honesty may matter after all: no
//! two sets are agreed, whatever C and D sign, where a plan's quorum covers both (`Quorum` of the
//! protocol, n > c + 3D); else if D has followed the protocol until it departed.

#[cfg(test)]
mod tests;
