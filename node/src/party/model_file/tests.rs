use undertone_protocol::plan::defaults::Defaults;
use undertone_protocol::plan::run_file::raw::RawRunFile;

use super::*;
use crate::reporting::failure::Exit;
use crate::testing::plan_of;

fn plan(text: &str) -> Plan {
    plan_of(text, 4, Some(2))
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

fn settings(columns: &str, target: &str) -> ModelSettings {
    let text = format!(
        "task = \"regression\"\nname = \"names\"\n[data]\nshape = [3]\n{columns}\
         clip = {{ kind = \"box\", low = 0.0, high = 10.0 }}\n[model]\nloss = \"logistic\"\n\
         target = {target}\nrows = \"as-is\"\nstep = 1.0\nintercept = false\n"
    );
    let raw = RawRunFile::parse(&text).unwrap();
    raw.resolve(4, Defaults::File)
        .unwrap()
        .computation
        .model()
        .unwrap()
        .clone()
}

/// Features of the rows, and whether their targets are known.
fn prepared(model: &ModelSettings, text: &str) -> Result<(Vec<Vec<f64>>, bool), Failure> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, text).unwrap();
    let (rows, judged) = rows_to_predict(model, &path)?;
    Ok((
        rows.iter().map(|(features, _)| features.to_vec()).collect(),
        judged,
    ))
}

#[test]
fn columns_are_compared_by_name_with_and_without_the_target() {
    let named = settings("columns = [\"age\", \"y\", \"bmi\"]\n", "\"y\"");
    let expected = vec![vec![0.0, 1.0]];
    for (text, judged) in [
        ("age,bmi\n5,10\n", false),
        ("age,y,bmi\n5,1,10\n", true),
        ("5,10\n", false),
        ("5,1,10\n", true),
    ] {
        assert_eq!(
            prepared(&named, text).unwrap(),
            (expected.clone(), judged),
            "{text:?}"
        );
    }
    for text in [
        "bmi,age\n10,5\n",
        "age,y\n5,1\n",
        "age,weight\n5,10\n",
        "Age,bmi\n5,10\n",
        "age,bmi,y\n5,10,1\n",
        "y,age,bmi\n1,5,10\n",
        "age\n5\n",
    ] {
        let failure = prepared(&named, text).unwrap_err();
        assert_eq!(failure.exit, Exit::InputUnusable, "{text:?}");
    }
    // Names that are numbers are names where the model has them.
    let years = settings("columns = [\"2019\", \"2020\", \"2021\"]\n", "\"2020\"");
    assert_eq!(
        prepared(&years, "2019,2021\n5,10\n").unwrap(),
        (expected.clone(), false)
    );
    prepared(&years, "2021,2019\n10,5\n").unwrap_err();
    assert_eq!(
        prepared(&years, "2019,2020,2021\n5,1,10\n").unwrap(),
        (expected.clone(), true)
    );
    // A model without names has nothing to compare; a row of column numbers is asked about.
    let unnamed = settings("", "1");
    assert_eq!(prepared(&unnamed, "bmi,age\n5,10\n").unwrap(), (expected, false));
    prepared(&unnamed, "0,1\n5,10\n").unwrap_err();
}
