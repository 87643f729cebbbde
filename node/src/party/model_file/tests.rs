use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::run_file::parsed::RunFile;

use super::*;
use crate::planning::make;
use crate::telling::failure::Exit;

fn plan(text: &str) -> Plan {
    let run = RunFile::parse(&format!("name = \"t\"\n{text}"), 4).unwrap_or_else(|e| panic!("{e}"));
    let peers = Peers::simulated(4, Some(2)).expect("peers");
    make::make(run, &peers, 1).unwrap_or_else(|e| panic!("{}", e.message))
}

const SOFTMAX: &str =
    "task = \"regression\"\n[data]\nshape = [3]\n[model]\nloss = \"softmax\"\nclasses = 3\n";

fn model(plan: &Plan) -> ModelFile {
    let values: Vec<f64> = (0..9).map(|at| f64::from(at) / 8.0).collect();
    ModelFile::of(plan, &values, Some(0.5), 7).expect("it fits a model")
}

#[test]
fn a_model_comes_back_as_it_was_written() {
    let (plan, folder) = (plan(SOFTMAX), tempfile::tempdir().expect("a folder"));
    let model = model(&plan);
    assert_eq!(
        (model.weights.len(), model.weights[2][2]),
        (3, 1.0),
        "a row for each class"
    );
    for name in ["model.json", "model.npy"] {
        let path = folder.path().join(name);
        model.write(&path).expect("writable");
        assert_eq!(ModelFile::read(&path).expect("whole"), model, "{name}");
    }
    let path = folder.path().join("model.safetensors");
    model.write(&path).expect("writable");
    let tensors = formats::read(&path).expect("a model");
    // Biases first, in the order of names, then the weights of the two columns.
    assert_eq!(tensors.values[..3], [0.25, 0.625, 1.0]);
    assert_eq!(tensors.values[3..5], [0.0, 0.125]);
    assert_eq!(model.digest(), plan.digest_hex());
}

#[test]
fn weights_that_are_not_the_settings_are_refused() {
    let (plan, folder) = (plan(SOFTMAX), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("model.json");
    let refused = |change: &dyn Fn(&mut ModelFile)| {
        let mut model = model(&plan);
        change(&mut model);
        model.write(&path).expect("writable");
        ModelFile::read(&path).is_err_and(|failure| failure.exit == Exit::InputUnusable)
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|model| model.weights.truncate(2)));
    assert!(refused(&|model| model.weights[1].truncate(2)));
    assert!(refused(&|model| model.version = 2));
    assert!(refused(&|model| model.model.classes = Some(4)));
}

#[test]
fn a_result_is_written_to_a_format_of_its_task() {
    let rounds = "task = \"rounds\"\n[data]\nreleases = 2\n";
    let cases: [(String, &[&str], &[&str]); 3] = [
        (SOFTMAX.into(), &["npy", "json", "safetensors"], &["csv", "txt"]),
        (
            format!("{rounds}shape = [2]\n"),
            &["npy"],
            &["json", "safetensors"],
        ),
        (
            format!("{rounds}tensors = {{ a = [2] }}\n"),
            &["npy", "safetensors"],
            &["json"],
        ),
    ];
    for (text, known, others) in cases {
        let records = "[data]\nunit = \"record\"\nclip = { kind = \"l2\", radius = 1.0 }\n";
        let plan = match text.contains("rounds") {
            true => plan(&text.replace("[data]\n", records)),
            false => plan(&text),
        };
        let check = |extension: &&str| check_output(&plan, &Path::new("result").with_extension(extension));
        assert!(known.iter().all(|extension| check(extension).is_ok()), "{text}");
        for extension in others {
            let refused = check(extension).expect_err(extension);
            assert_eq!(
                (refused.exit, refused.field.as_deref()),
                (Exit::Usage, Some("--output"))
            );
        }
        assert!(check_output(&plan, Path::new("result")).is_err(), "no extension");
    }
}
