use super::*;

const LOGISTIC: &str =
    "task = \"regression\"\nname = \"x\"\n[data]\nshape = [3]\n[model]\nloss = \"logistic\"\n";

const MEAN: &str = "name = \"x\"\n[data]\nshape = [3]\n";

fn iteration_ms(file: &RunFile) -> Option<u64> {
    file.computation.sequence().map(|sequence| sequence.iteration_ms)
}

/// The field for which a run file of eight parties is refused.
fn refused(text: &str) -> String {
    let error = RunFile::parse(text, 8).expect_err("refused");
    error.field().unwrap_or_default().to_owned()
}

#[test]
fn a_model_goes_with_a_training_only() {
    let mean = MEAN;
    assert_eq!(refused(&format!("{mean}[model]\nloss = \"squared\"\n")), "model");
    assert_eq!(
        refused(&format!("{mean}[run]\niteration_ms = 9\n")),
        "run.iteration_ms"
    );
    let training = LOGISTIC;
    let file = parse(training, 8);
    let model = file.computation.model().expect("a model");
    assert_eq!(
        (model.features(), model.parameters(), model.iterations),
        (3, 3, 50)
    );
    assert_eq!((&file.data.shape, file.data.unit), (&vec![3], Unit::Record));
    assert_eq!(file.exchange.name(), ExchangeName::Inca);
    assert_eq!((iteration_ms(&file), file.run.settle_ms), (Some(8000), 4000));
    for (line, field) in [
        ("clip = 0.0", "model.clip"),
        ("momentum = 1.0", "model.momentum"),
        ("ridge = -1.0", "model.ridge"),
        ("average = 1.5", "model.average"),
        ("target = 3", "model.target"),
        ("target_box = [0.0, 1.0]", "model.target_box"),
        ("classes = 2", "model.classes"),
        ("iterations = 0", "model.iterations"),
    ] {
        assert_eq!(refused(&format!("{training}{line}\n")), field);
    }
    // Ten thousand models of a million numbers are more than a node is to keep.
    let long = training.replace("[3]", "[1000000]") + "iterations = 10000\n";
    assert_eq!(refused(&long), "model.iterations");
    parse(&(long + "average = 0.0\n"), 8);
}

/// Means in sequence are as many as are asked for, and are no regression.
#[test]
fn rounds_are_as_many_as_are_asked_for() {
    let mean = MEAN;
    let rounds = "task = \"rounds\"\nname = \"x\"\n[data]\nshape = [3]\nreleases = 20\n";
    let file = parse(rounds, 8);
    assert_eq!((file.computation.releases(), file.data.unit), (20, Unit::Party));
    assert_eq!(file.exchange.name(), ExchangeName::Inca);
    assert_eq!((iteration_ms(&file), file.run.settle_ms), (Some(8000), 4000));
    for (text, field) in [
        (rounds.replace("releases = 20\n", ""), "data.releases"),
        (rounds.replace("20", "0"), "data.releases"),
        (rounds.replace("20", "10001"), "data.releases"),
        (format!("{mean}releases = 2\n"), "data.releases"),
        (format!("{rounds}[model]\nloss = \"squared\"\n"), "model"),
        (format!("{mean}result = \"sum\"\n"), "data.result"),
        (format!("{mean}clipped = \"by-program\"\n"), "data.clipped"),
        (format!("{rounds}clipped = \"by-program\"\n"), "data.clipped"),
        (
            format!(
                "{rounds}unit = \"record\"\nclipped = \"by-program\"\n\
                 clip = {{ kind = \"box\", low = -1, high = 1 }}\n"
            ),
            "data.clipped",
        ),
        (
            format!("{rounds}[mechanism]\nkind = \"ppsc\"\n"),
            "mechanism.kind",
        ),
    ] {
        assert_eq!(refused(&text), field, "{text}");
    }
    // A point of the range stands in for a contribution that is missing, also where zero is none.
    let far = format!("{rounds}clip = {{ kind = \"box\", low = 1, high = 2 }}\n");
    assert_eq!(parse(&far, 8).computation.releases(), 20);
}

/// Tensors by name: each with its extents, and its own radius.
#[test]
fn tensors_have_extents_and_radii() {
    let tensors = |radius: &str, rest: &str| {
        format!(
            "task = \"rounds\"\nname = \"x\"\n[data]\nreleases = 2\n\
             clip = {{ kind = \"tensors\", radius = {{ {radius} }} }}\n{rest}\n"
        )
    };
    let both = "\"l.weight\" = 1.0, \"l.bias\" = 0.5";
    let shapes = "tensors = { \"l.weight\" = [2, 3], \"l.bias\" = [] }";
    let data = parse(&tensors(both, shapes), 8).data;
    assert_eq!(data.shape, [7]);
    let balls = data.balls().expect("balls");
    let found: Vec<_> = balls.iter().map(|ball| (ball.coordinates, ball.radius)).collect();
    assert_eq!(found, [(1, 0.5), (6, 1.0)], "in the order of names");
    let places = [0, 1, 3, 4, 6, 7].map(|coordinate| data.place_in_tensors(coordinate));
    let expected = [
        "l.bias",
        "l.weight[0,0]",
        "l.weight[0,2]",
        "l.weight[1,0]",
        "l.weight[1,2]",
        "",
    ];
    assert_eq!(places.map(Option::unwrap_or_default), expected);
    for (radius, rest, field) in [
        (both, "shape = [7]", "data.tensors"),
        (both, &*format!("{shapes}\nshape = [6]"), "data.shape"),
        ("\"l.weight\" = 1.0", shapes, "data.clip.radius"),
        (
            "\"l.weight\" = 1.0, \"l.bias\" = 0.5, x = 1.0",
            shapes,
            "data.clip.radius",
        ),
        ("\"l.weight\" = 1.0, \"l.bias\" = 0.0", shapes, "data.clip.radius"),
        (
            "v = 1.0, w = 1.0",
            "tensors = { v = [2], w = [3, 0] }",
            "data.tensors",
        ),
    ] {
        assert_eq!(refused(&tensors(radius, rest)), field, "{radius} {rest}");
    }
}

/// Noise of all iterations is precomputed where a node may hold it.
#[test]
fn noise_is_precomputed_where_that_is_small() {
    // A state, another with its value in it, and a record of each of seven neighbours.
    let held = 9 * 50 * 3 * 8;
    let kind_of = |bytes: u64| {
        let text = format!("{LOGISTIC}[run]\nprecomputed_bytes = {bytes}\n");
        parse(&text, 8).exchange.name()
    };
    assert_eq!(kind_of(held), ExchangeName::Inca);
    assert_eq!(kind_of(held - 1), ExchangeName::Pairwise);
    let mean = "name = \"x\"\n[data]\nshape = [3]\n[run]\nprecomputed_bytes = 9\n";
    let error = RunFile::parse(mean, 8).expect_err("refused");
    assert_eq!(error.field(), Some("run.precomputed_bytes"));
}

const SQUARED: &str =
    "task = \"regression\"\nname = \"x\"\n[data]\nshape = [4]\n[model]\nloss = \"squared\"\n";

#[test]
fn statistics_are_one_sum_of_second_moments() {
    let statistics = format!("{SQUARED}method = \"statistics\"\n");
    let boxed = parse(
        &format!("{statistics}target_box = [-2.0, 1.0]\nridge = \"auto\"\n"),
        8,
    );
    let model = boxed.computation.model().expect("a model");
    // Features of length 1 and a target of at most 2; four of them and the target make 15 moments.
    assert!((model.clip - 5f64.sqrt()).abs() < 1e-15 && model.iterations == 1);
    assert_eq!((&boxed.data.shape, boxed.computation.releases()), (&vec![15], 1));
    assert_eq!(boxed.data.contributed, Contributed::SecondMoments);
    assert!((model.ridge_for(0.1) - 0.15 * 0.1 * 8f64.sqrt()).abs() < 1e-15);
    assert_eq!(
        parse(&format!("{statistics}clip = 3.0\nridge = 0.5\n"), 8)
            .computation
            .model()
            .map(|it| it.clip),
        Some(3.0)
    );
    let refused = |text: &str| {
        let error = RunFile::parse(text, 8).expect_err("refused");
        error.field().unwrap_or_default().to_owned()
    };
    let clipped = format!("{statistics}clip = 3.0\n");
    for (text, field) in [
        (statistics.clone(), "model.clip"),
        (
            format!("{statistics}target_box = [0.0, 1.0]\nrows = \"as-is\"\n"),
            "model.clip",
        ),
        (clipped.replace("squared", "logistic"), "model.method"),
        (format!("{clipped}iterations = 20\n"), "model.iterations"),
        (format!("{clipped}step = 0.5\n"), "model.step"),
        (format!("{clipped}momentum = 0.5\n"), "model.momentum"),
        (format!("{clipped}average = 0.0\n"), "model.average"),
        (
            format!("{clipped}set = {{ kind = \"ball\", radius = 1.0 }}\n"),
            "model.set",
        ),
        (format!("{SQUARED}clip = 3.0\nridge = \"auto\"\n"), "model.ridge"),
        (
            clipped.replace("[data]\n", "[data]\nunit = \"party\"\n"),
            "data.unit",
        ),
    ] {
        assert_eq!(refused(&text), field, "{text}");
    }
}
