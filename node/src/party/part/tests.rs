use rand::SeedableRng;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::mixing::portion::NoiseSource;
use undertone_protocol::plan::peers::simulated_keypair;

use super::*;
use crate::party::noise_tests::{COORDINATES, assert_normal, in_deviations};
use crate::testing::plan_of;
use crate::vector_file::layout::{Dtype, Layout};

fn plan(text: &str, records: Option<u64>) -> Arc<Plan> {
    Arc::new(plan_of(text, 4, records))
}

fn file(shape: &[usize], values: Vec<f64>) -> VectorFile {
    VectorFile {
        layout: Layout::npy(shape.to_vec(), Dtype::F64),
        values,
    }
}

fn privatised(plan: &Arc<Plan>, file: VectorFile, seed: u64) -> Private {
    let rng = ChaCha12Rng::seed_from_u64(seed);
    privatise(plan, 0, OwnData::Vector(file), Path::new("input.npy"), rng)
        .unwrap_or_else(|e| panic!("{}", e.message))
}

/// The one release of a mean has the planned noise, of parties and of records, shared with nothing:
/// another seed gives other noise, and so does the noise that is mixed.
#[test]
fn a_mean_leaves_with_the_planned_noise() {
    for (lines, rows) in [
        ("", None),
        (
            "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\n",
            Some(2usize),
        ),
    ] {
        for sealed in [true, false] {
            let text = format!(
                "[data]\nshape = [{COORDINATES}]\nnoise_ok = true\n{lines}[run]\nsealed = {sealed}\n"
            );
            let plan = plan(&text, rows.map(|rows| rows as u64));
            let shape: Vec<usize> = rows.into_iter().chain([COORDINATES]).collect();
            let zeros = || file(&shape, vec![0.0; shape.iter().product()]);
            let of_seed = |seed| privatised(&plan, zeros(), seed);
            let mut one = of_seed(1);
            let deviations =
                |value: &Noisy| in_deviations(&plan, &value.vector().steps().collect::<Vec<_>>());
            assert_normal(&deviations(&one.value), &text);
            assert!(one.value != of_seed(2).value, "{text}");
            assert!(one.contributor.is_none() && one.clipped.changed == 0);
            if !sealed {
                let mixed = one.noise.draw(0, 0).unpack();
                let unit = plan.lattice().step() / plan.calibration().correlated_std;
                assert_normal(&mixed.to_f64(unit), "mixed");
                let mut both = one.value.vector().clone();
                both.subtract(&mixed);
                assert!(both.steps().any(|step| step != 0));
            }
        }
    }
}

/// Checks that the first vector of a training, rounds or a stream comes from its contributor, which
/// goes on.
#[test]
fn whoever_goes_on_has_a_contributor() {
    let model = "task = \"regression\"\n[data]\nshape = [3]\n[model]\nloss = \"logistic\"\n";
    let training = plan(model, Some(2));
    let rows = file(&[2, 3], vec![0.1, 0.2, 1.0, 0.3, 0.4, 0.0]);
    assert!(privatised(&training, rows, 1).contributor.is_some());
    let stream = plan(
        "task = \"stream\"\n[data]\nshape = [2]\nreleases = 3\n[mechanism]\nsums = \"open\"\n",
        None,
    );
    assert!(streams(&stream) && !streams(&training));
    let private = privatised(&stream, file(&[3, 2], vec![9.0, 0.0, 0.1, 0.1, 0.0, 9.0]), 1);
    assert!(private.contributor.is_some());
    assert_eq!(
        (private.clipped.changed, private.clipped.of),
        (2, 3),
        "before the first leaves"
    );
    let outer = plan(
        "task = \"linear-equations\"\n[data]\nshape = [3]\n[recursion]\niterations = 2\naccuracy = 1e-2\n\
         [mechanism]\naccept_exact_sum = true\n",
        Some(1),
    );
    let private = privatised(&outer, file(&[1, 3], vec![1.0, 0.0, 0.5]), 1);
    let state = private.value.vector().to_f64(outer.lattice().step());
    // The nearest solution of x = 0.5, without noise of its own.
    assert!((state[0] - 0.5).abs() < 1e-4 && state[1] == 0.0, "{state:?}");
}

#[test]
fn an_identity_that_is_no_member_is_refused() {
    let plan = plan("[data]\nshape = [2]\n", None);
    let id = |party: Party| PeerId::from(simulated_keypair(party).public());
    assert_eq!(member(&plan, id(2)).map_err(|e| e.message), Ok(2));
    let refused = member(&plan, id(77)).expect_err("a stranger");
    assert_eq!(
        (refused.exit, refused.field.as_deref()),
        (Exit::PlanRefused, Some("--identity"))
    );
}

/// A first part over the API is judged as a program's is: one row that is not finite is one row.
#[test]
fn rows_of_rounds_are_read_whatever_is_in_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.npy");
    let layout = Layout::npy(vec![2, 2], Dtype::F64);
    formats::write(&path, &layout, &[0.1, 0.2, f64::NAN, 0.3]).expect("writable");
    let records = "unit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\n";
    let rounds = plan(
        &format!("task = \"rounds\"\n[data]\nshape = [2]\nreleases = 2\n{records}"),
        Some(2),
    );
    assert!(vector(&rounds, 0, &path).is_ok());
    let once = plan(&format!("[data]\nshape = [2]\n{records}"), Some(2));
    let refused = vector(&once, 0, &path).expect_err("nothing has left yet, and its owner is there");
    assert!(
        refused.message.contains("coordinate 2 is not a number"),
        "{}",
        refused.message
    );
}
