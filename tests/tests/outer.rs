//! PPSC's Algorithms 3 and 4 as in the paper: what they come to, what everybody learns from them
//! and how that is said, what ends them, and what is refused.

use std::path::Path;

use serde_json::Value;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::wire;
use undertone_protocol::run::outcome::Ending;
use undertone_tests::outer::{
    ASKED, FIGURE_4, OuterRun, PIECES, SOLUTION, TABLE_4, data_of_table_4, of_equation, plan, table_4,
};
use undertone_tests::{Signal, alone, follow_in, read_json, read_npy, receipt, run_in, signal};

/// Deadlines that nobody comes to, on a machine with other work, too.
const PATIENT: &str = "[run]\njoin_ms = 60000\nround_ms = 30000\nsettle_ms = 30000\n";

/// Ten files of one row each.
fn write_table_4(folder: &Path, run: &str) {
    std::fs::create_dir(folder.join("rows")).expect("writable");
    for (party, row) in TABLE_4.iter().enumerate() {
        let text: Vec<String> = row.iter().map(f64::to_string).collect();
        let file = folder.join(format!("rows/party-{party}.csv"));
        std::fs::write(file, text.join(",") + "\n").expect("writable");
    }
    std::fs::write(folder.join("run.toml"), format!("version = 1\n{run}")).expect("writable");
}

fn distance(point: &[f64]) -> f64 {
    let off = point.iter().zip(SOLUTION).map(|(x, y)| (x - y).powi(2));
    off.sum()
}

const SENTENCE: &str = "the sum of its members' normalised equations at every iterate; after 7 iterations";

#[test]
fn ten_parties_solve_table_4_and_everything_says_what_that_tells() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let run = table_4("iterations = 313\ngossip_iterations = 8");
    write_table_4(folder, &format!("{run}{PATIENT}"));
    let line = "local --inputs rows --run run.toml --output kept --json";
    let object = run_in(folder, line.split(' ')).json_of(0);
    assert_eq!(
        (&object["outcome"], &object["finished"]),
        (&"done".into(), &10.into())
    );
    assert!(
        object["epsilon"].is_null() && object["epsilon_claimed"].is_null(),
        "{object}"
    );
    let kept = folder.join("kept");
    let iterates: Vec<Vec<f64>> = (0..10)
        .map(|party| read_npy(&kept.join(format!("party-{party}/iterate.npy"))).2)
        .collect();
    let all: f64 = iterates.iter().map(|x| distance(x)).sum();
    assert!(all <= 0.01, "Σ‖x − y*‖² = {all}");
    let claims = &read_json(&kept.join("plan.json"))["claims"];
    assert_one_claim(claims);
    for party in 0..10 {
        let receipt = receipt::of_local(&kept, &format!("party-{party}"));
        assert_one_claim(&receipt["claims"]);
        assert_eq!(
            (&receipt["epsilon"], &receipt["mu"], &receipt["unbounded"]),
            (&Value::Null, &Value::Null, &true.into())
        );
        let says = receipt["revealed"]
            .as_str()
            .is_some_and(|text| text.contains(SENTENCE));
        assert!(says && receipt.get("same_sum_mu").is_none(), "{receipt}");
        assert_eq!(receipt["iterations"]["run"], 313);
    }
    let quote = run_in(folder, ["verify", "kept/plan.json"]);
    assert!(
        quote.code == 0 && quote.stdout.contains(SENTENCE),
        "{}",
        quote.stdout
    );
    run_in(folder, "verify kept/plan.json --max-epsilon 5 --json".split(' ')).refused_at(3, "--max-epsilon");
}

fn assert_one_claim(claims: &Value) {
    let [claim] = &claims.as_array().expect("claims")[..] else {
        panic!("one claim: {claims}");
    };
    assert_eq!(
        (
            &claim["adversary"],
            &claim["unbounded"],
            &claim["epsilon"],
            &claim["mu"]
        ),
        (&"public".into(), &true.into(), &Value::Null, &Value::Null)
    );
    let says = claim["sentence"]
        .as_str()
        .is_some_and(|text| text.contains(SENTENCE));
    assert!(says && claim["holds_as_headline"] == false, "{claim}");
}

/// After a few steps only, so that it shows where nodes began and how far each step went.
#[test]
fn nodes_come_to_what_their_machines_do_in_one_thread() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let lines = "iterations = 3\naccuracy = 1e-2\nstart = [0, 14, 0, 0, 0, 0]\ninconsistent = \"normalised\"";
    let run = table_4(lines);
    write_table_4(folder, &format!("{run}{PATIENT}"));
    let line = "local --inputs rows --run run.toml --output kept --json";
    run_in(folder, line.split(' ')).json_of(0);
    let mut machines = OuterRun::new(&plan(&run, 10, 1), &data_of_table_4());
    machines.run();
    for (party, expected) in machines.iterates().iter().enumerate() {
        let found = read_npy(&folder.join(format!("kept/party-{party}/iterate.npy"))).2;
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{party}: {found} {expected}");
        }
    }
}

/// A plan that claims more than that is refused.
#[test]
fn a_plan_that_hides_what_it_tells_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let honest = plan(&table_4("iterations = 2"), 10, 1);
    let refused = |change: &dyn Fn(&mut Value), about: &str| {
        let mut value: Value = serde_json::from_str(honest.to_json()).expect("a plan");
        change(&mut value);
        std::fs::write(folder.path().join("plan.json"), value.to_string()).expect("writable");
        run_in(folder.path(), ["verify", "plan.json", "--json"]).refused(3, about);
    };
    refused(
        &|plan| plan["claims"] = Value::Array(vec![]),
        "exact sums are revealed",
    );
    refused(
        &|plan| plan["claims"][0]["sentence"] = "nothing".into(),
        "exact sums are revealed",
    );
    refused(
        &|plan| plan["claims"][0]["epsilon"] = 1.0.into(),
        "claims.0.unbounded",
    );
    refused(
        &|plan| plan["computation"]["pairwise_std"] = 7.0.into(),
        "pairwise_std",
    );
    refused(&|plan| plan["computation"]["columns"] = 5.into(), "data");
    refused(
        &|plan| plan["computation"]["task"] = "mean".into(),
        "unknown field",
    );
}

/// Solves A x = b for a few unknowns, by elimination with pivots.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs()))
            .expect("a row");
        a.swap(column, pivot);
        b.swap(column, pivot);
        for row in column + 1..n {
            let factor = a[row][column] / a[column][column];
            let above = a[column].clone();
            a[row]
                .iter_mut()
                .zip(above)
                .for_each(|(x, above)| *x -= factor * above);
            b[row] -= factor * b[column];
        }
    }
    for column in (0..n).rev() {
        let known: f64 = (column + 1..n).map(|j| a[column][j] * b[j]).sum();
        b[column] = (b[column] - known) / a[column][column];
    }
    b
}

/// The states that were said first in an outer iteration, and their mean, where averaging comes to.
fn first_said(run: &OuterRun, outer: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let round = (outer * 5) as u32;
    let mut states = vec![vec![]; 10];
    for (party, at, state) in &run.said {
        if *at == round {
            states[*party].clone_from(state);
        }
    }
    let mean = (0..6).map(|i| states.iter().map(|state| state[i]).sum::<f64>() / 10.0);
    let mean = mean.collect();
    (states, mean)
}

/// The solution has entries of ±10: what a node tells of its state is put back into the plan's box.
#[test]
fn no_node_leaves_the_box() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let range = "shape = [7]\nclip = { kind = \"box\", low = -3.0, high = 3.0 }";
    let run = table_4("iterations = 3\naccuracy = 1e-2").replace("shape = [7]", range);
    write_table_4(folder, &format!("{run}{PATIENT}"));
    let line = "local --inputs rows --run run.toml --output kept --json";
    run_in(folder, line.split(' ')).json_of(0);
    for party in 0..10 {
        let found = read_npy(&folder.join(format!("kept/party-{party}/iterate.npy"))).2;
        assert!(found.iter().all(|x| x.abs() < 3.01), "{party}: {found:?}");
        assert!(found.iter().any(|x| x.abs() > 1.0), "{party}: {found:?}");
    }
}

/// What the quote says is true: from public frames alone everybody has every piece's system, though
/// each exchange has noise a thousand times as large as the solution.
#[test]
fn whoever_reads_the_public_graph_has_every_pieces_system() {
    let run = table_4("iterations = 50\naccuracy = 1e-9\ngossip_iterations = 20\npairwise_std = 1000.0");
    // So fine a lattice has room for no more.
    let range = "shape = [7]\nclip = { kind = \"box\", low = -1e3, high = 1e3 }";
    let plan = plan(&run.replace("shape = [7]", range), 10, 1);
    let mut run = OuterRun::new(&plan, &data_of_table_4());
    run.run();
    for piece in PIECES {
        // In outer iteration l + 1 a piece's states add up to Σ P(m) = n·m − A·m + b, m the mean of
        // l.
        let size = piece.len() as f64;
        let (mut points, mut sums) = (vec![], vec![]);
        // Points far apart in time tell more than neighbours do, which are nearly on one line.
        for outer in [0, 1, 3, 6, 12, 24, 48] {
            let (_, mean) = first_said(&run, outer);
            let (states, _) = first_said(&run, outer + 1);
            let sum = |i: usize| piece.clone().map(|party| states[party][i]).sum::<f64>();
            sums.push((0..6).map(|i| size * mean[i] - sum(i)).collect::<Vec<f64>>());
            points.push([&mean[..], &[-1.0]].concat());
        }
        for i in 0..6 {
            let found = solve(points.clone(), sums.iter().map(|sum| sum[i]).collect());
            for (j, found) in found.iter().enumerate() {
                let truth: f64 = piece.clone().map(|party| of_equation(party, i, j)).sum();
                assert!(
                    (found - truth).abs() < 1e-6,
                    "{piece:?}, row {i}, column {j}: {found}, {truth}"
                );
            }
        }
    }
}

/// Gradient steps of three parties and a ball, by the paper's averaging: what all steps at the
/// exact mean come to.
#[test]
fn three_parties_optimise_within_a_ball_as_one_would() {
    let lines = "task = \"optimise\"\nname = \"ball\"\n[data]\nshape = [3]\n[recursion]\nloss = \"logistic\"\n\
                 ridge = 0.1\nset = { kind = \"ball\", radius = 1.0 }\niterations = 40\naccuracy = 1e-6\n\
                 gossip_iterations = 6\naveraging = { kind = \"paper\", rounds = 30, weight = 0.3 }\n";
    let plan = plan(&format!("{lines}{ASKED}[privacy]\ncolluding = 0\n"), 3, 2);
    let data: Vec<Vec<Vec<f64>>> = vec![
        vec![vec![1.0, 2.0, 1.0], vec![-1.0, 0.5, 0.0]],
        vec![vec![0.5, -1.0, 0.0], vec![2.0, 1.0, 1.0]],
        vec![vec![-2.0, 1.0, 0.0], vec![1.0, 1.0, 1.0]],
    ];
    let mut run = OuterRun::new(&plan, &data);
    run.run();
    // The same, with exact means of exact steps.
    let outer = plan.draft().computation.recursion().expect("outer iterations");
    let steps: Vec<_> = data
        .iter()
        .map(|data| outer.local_step(undertone_tests::outer::rows(data)))
        .collect();
    let mut states: Vec<Vec<f64>> = vec![vec![0.0; 2]; 3];
    states
        .iter_mut()
        .zip(&steps)
        .for_each(|(state, step)| step.begin(state));
    for k in 2..=41 {
        let mean: Vec<f64> = (0..2)
            .map(|i| states.iter().map(|x| x[i]).sum::<f64>() / 3.0)
            .collect();
        for (state, step) in states.iter_mut().zip(&steps) {
            state.clone_from(&mean);
            step.apply(k, state);
        }
    }
    for (found, expected) in run.iterates().iter().zip(&states) {
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        assert!(
            found.iter().map(|x| x * x).sum::<f64>() <= 1.0 + 1e-9,
            "{found:?}"
        );
    }
}

/// Equations without a common solution: the least squares of the equations as they are.
#[test]
fn equations_that_contradict_each_other_end_at_their_least_squares() {
    let outer = "iterations = 200\naccuracy = 1e-6\ngossip_iterations = 4\nstep = 0.3\n\
                 inconsistent = \"least-squares\"";
    let lines = format!(
        "task = \"linear-equations\"\nname = \"fit\"\n[data]\nshape = [3]\n[recursion]\n{outer}\n{ASKED}\
         [privacy]\ncolluding = 0\n"
    );
    let plan = plan(&lines, 4, 1);
    let rows = [
        [1.0, 0.0, 1.0],
        [0.0, 1.0, 2.0],
        [1.0, 1.0, 4.0],
        [2.0, -1.0, 0.5],
    ];
    let data: Vec<Vec<Vec<f64>>> = rows.iter().map(|row| vec![row.to_vec()]).collect();
    let mut run = OuterRun::new(&plan, &data);
    run.run();
    // Σhhᵀ x = Σzh by hand: [[6, −1], [−1, 3]] x = [6, 5.5].
    let solution = solve(vec![vec![6.0, -1.0], vec![-1.0, 3.0]], vec![6.0, 5.5]);
    let iterates = run.iterates();
    for i in 0..2 {
        // A constant step leaves nodes apart, around a mean that is the solution.
        let mean = iterates.iter().map(|x| x[i]).sum::<f64>() / 4.0;
        assert!((mean - solution[i]).abs() < 1e-3, "{mean} {solution:?}");
    }
}

/// Nobody waits for ever: who is silent ends it, and everybody keeps its last iterate.
#[test]
fn a_party_that_falls_silent_ends_it_with_the_last_iterates() {
    let plan = plan(&table_4("iterations = 50\ngossip_iterations = 8"), 10, 1);
    let mut run = OuterRun::new(&plan, &data_of_table_4());
    run.silent = Some((5, 61));
    run.run();
    for (party, outcome) in run.outcomes.iter().enumerate().filter(|(party, _)| *party != 5) {
        let outcome = outcome.as_ref().expect("it ends");
        assert_eq!(outcome.ending, Ending::Degraded);
        let training = outcome.training.as_ref().expect("iterations");
        assert!(
            (11..=13).contains(&training.iterations),
            "{party}: {}",
            training.iterations
        );
        let iterate = training.result.as_ref().expect("an iterate");
        let (h, z) = TABLE_4[party].split_at(6);
        let at: f64 = h.iter().zip(iterate).map(|(h, x)| h * x).sum();
        assert!((at - z[0]).abs() < 1e-3, "its own equation holds: {at} {z:?}");
        assert!(training.stopped.is_some());
    }
}

/// What a neighbour may send without a key of another: nothing of it is used, and nothing is kept.
#[test]
fn what_hostile_neighbours_send_changes_nothing() {
    let plan = plan(&table_4("iterations = 12\ngossip_iterations = 8"), 10, 1);
    let calm = {
        let mut run = OuterRun::new(&plan, &data_of_table_4());
        run.run();
        assert_eq!(run.offences, 0);
        run.iterates()
    };
    let mut run = OuterRun::new(&plan, &data_of_table_4());
    let mut share = wire::share_frame(
        plan.digest(),
        undertone_protocol::messages::log::ShareId {
            round: 1,
            from: 1,
            to: 0,
        },
        undertone_protocol::lattice::grid::LatticeWeight(0),
        &[7; 36],
    )
    .to_vec();
    for round in [0u32, 1, 2, 9, 8 * 12, 8 * 12 + 1, u32::MAX] {
        // The header has the digest first, then the round and the sender.
        share[34..38].copy_from_slice(&round.to_le_bytes());
        share[38..42].copy_from_slice(&9u32.to_le_bytes());
        run.hostile.push((Network::Private, 9, share.clone()));
    }
    run.hostile.push((Network::Private, 1, share[..40].to_vec()));
    run.hostile.push((Network::Private, 1, vec![]));
    run.hostile
        .push((Network::Private, 1, wire::iteration_frame(3, &share).to_vec()));
    for number in [2, 3, 4, u32::MAX] {
        for inner in [&[][..], &[1, 7], &share[..], &[255; 300]] {
            let frame = wire::iteration_frame(number, inner).to_vec();
            run.hostile.push((Network::Public, 1, frame));
        }
    }
    for (number, values) in [(0u32, 48usize), (0, 40), (1, 48), (u32::MAX - 2, 48)] {
        // Signed by nobody that may.
        let round = undertone_protocol::messages::notice::Round {
            author: 1,
            digest: *plan.digest(),
            round: number,
            signature: undertone_protocol::messages::signature::Signature([7; 64]),
        };
        let inner = wire::round_frame(&round, &vec![255; values]);
        let frame = wire::iteration_frame(number + 2, &inner).to_vec();
        run.hostile.push((Network::Public, 1, frame));
    }
    run.run();
    assert_eq!(run.iterates(), calm, "to the bit");
    assert!(run.offences >= 20, "{}", run.offences);
}

/// A kill halfway: exit 5, and every survivor's last iterate is written.
#[test]
fn a_kill_ends_it_with_the_last_iterates() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let run = table_4("iterations = 10000\ngossip_iterations = 8");
    write_table_4(folder, &format!("{run}{PATIENT}"));
    let line = "local --inputs rows --run run.toml --output kept --json";
    let (running, mut events) = follow_in(folder, line.split(' '));
    let (victim, pid) = events.spawned(10)[6].clone();
    events.until("its twentieth iterate", |e| {
        e["event"] == "iteration" && e["party"] == *victim && e["k"] == 20
    });
    signal(pid, Signal::SIGKILL);
    let reported = events.rest();
    let object = running.wait().json_of(5);
    assert_eq!(object["exit_codes"][&victim], 137, "{object}");
    assert!(
        reported
            .iter()
            .any(|e| e["event"] == "peer" && e["state"] == "unreachable")
    );
    for party in (0..10)
        .map(|party| format!("party-{party}"))
        .filter(|party| *party != victim)
    {
        assert_eq!(object["exit_codes"][&party], 5, "{object}");
        let receipt = receipt::of_local(&folder.join("kept"), &party);
        let run = receipt["iterations"]["run"].as_u64().expect("a count");
        assert!((15..10_000).contains(&run), "{receipt}");
        assert_eq!(
            (&receipt["outcome"], &receipt["unbounded"]),
            (&"degraded".into(), &true.into())
        );
        assert!(
            receipt["reason"]
                .as_str()
                .is_some_and(|text| text.contains("last iterate")),
            "{receipt}"
        );
        let iterate = read_npy(&folder.join(format!("kept/{party}/iterate.npy"))).2;
        assert_eq!(iterate.len(), 6);
    }
}

/// The refusal of a local run over the rows in this folder.
#[track_caller]
fn refused(folder: &Path, code: i32, field: &str, run: &str) -> Value {
    std::fs::write(folder.join("run.toml"), run).expect("writable");
    let line = "local --inputs rows --run run.toml --json";
    run_in(folder, line.split(' ')).refused_at(code, field)
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_moves() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_table_4(folder, "");
    let refused = |code, field, run: &str| refused(folder, code, field, run);
    let whole = table_4("iterations = 20");
    let unaccepted = whole.replace("accept_exact_sum = true", "");
    let object = refused(2, "mechanism.accept_exact_sum", &unaccepted);
    let hint = object["error"]["message"].to_string() + &object["error"]["hint"].to_string();
    assert!(
        hint.contains("what you want is task = \\\"regression\\\""),
        "{object}"
    );
    for (line, field) in [
        ("", "recursion.iterations"),
        ("iterations = 0", "recursion.iterations"),
        ("iterations = 10001", "recursion.iterations"),
        ("iterations = 9\naccuracy = 0.0", "recursion.accuracy"),
        ("iterations = 9\nstep = 0.5", "recursion.step"),
        (
            "iterations = 9\nstep = -0.5\ninconsistent = \"normalised\"",
            "recursion.step",
        ),
        ("iterations = 9\nstart = [1, 2]", "recursion.start"),
        (
            "iterations = 9\ngossip_iterations = 0",
            "recursion.gossip_iterations",
        ),
        ("iterations = 9\npairwise_std = 0.0", "recursion.pairwise_std"),
        (
            "iterations = 9\naveraging = { kind = \"paper\", rounds = 0 }",
            "recursion.averaging",
        ),
        (
            "iterations = 9\naveraging = { kind = \"paper\", rounds = 9, weight = 2.0 }",
            "recursion.averaging",
        ),
        ("iterations = 9\nloss = \"squared\"", "recursion.loss"),
        ("iterations = 9\n[model]\nclip = 7.0", "model"),
        ("iterations = 9\n[privacy]\ndropouts = 1", "privacy.dropouts"),
        (
            "iterations = 9\n[run]\ndissemination = \"consensus\"",
            "run.dissemination",
        ),
    ] {
        refused(2, field, &table_4(line));
    }
}

#[test]
fn a_theorem_s_noise_without_its_public_numbers_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_table_4(folder, "");
    for (line, field) in [
        (
            "iterations = 9\npairwise_std = \"theorem\"",
            "recursion.solution_norm",
        ),
        (
            "iterations = 9\npairwise_std = \"theorem\"\nsolution_norm = 0.0",
            "recursion.solution_norm",
        ),
        ("iterations = 9\nsolution_norm = 17.0", "recursion.solution_norm"),
        ("iterations = 9\ncontraction = 0.5", "recursion.contraction"),
        (
            "iterations = 9\npairwise_std = \"theorem\"\nsolution_norm = 17.0\ncontraction = 1.0",
            "recursion.contraction",
        ),
        (
            "iterations = 9\npairwise_std = \"theorem\"\nsolution_norm = 17.0\ngradient_change = 1.0",
            "recursion.gradient_change",
        ),
        (
            "iterations = 9\npairwise_std = \"theorem\"\nsolution_norm = 17.0\n\
             inconsistent = \"normalised\"",
            "recursion.pairwise_std",
        ),
        (
            "iterations = 9\npairwise_std = \"theorem\"\nsolution_norm = 0.5\naccuracy = 9.0",
            "recursion.accuracy",
        ),
    ] {
        refused(folder, 2, field, &table_4(line));
    }
}

#[test]
fn keys_of_other_tasks_and_rows_that_are_none_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_table_4(folder, "");
    let refused = |code, field, run: &str| refused(folder, code, field, run);
    let whole = table_4("iterations = 20");
    let mean =
        format!("[recursion]\niterations = 9\n[data]\nclip = {{ kind = \"l2\", radius = 1.0 }}\n{FIGURE_4}");
    refused(2, "recursion", &mean);
    let optimise = whole.replace("linear-equations", "optimise");
    refused(2, "recursion.loss", &optimise);
    let of_loss = |loss: &str, more: &str| {
        optimise.replace(
            "iterations = 20",
            &format!("iterations = 20\nloss = \"{loss}\"\n{more}"),
        )
    };
    refused(2, "recursion.loss", &of_loss("softmax", ""));
    let theorem = of_loss("squared", "pairwise_std = \"theorem\"");
    refused(2, "recursion.gradient_change", &theorem);
    refused(
        2,
        "recursion.solution_norm",
        &theorem.replace(
            "\"theorem\"",
            "\"theorem\"\ngradient_change = 2.0\nsolution_norm = 9.0",
        ),
    );
    refused(
        2,
        "recursion.inconsistent",
        &of_loss("squared", "inconsistent = \"normalised\""),
    );
    // Targets that the loss does not know are unusable input; of all nodes the first says so.
    std::fs::write(
        folder.join("run.toml"),
        format!("{}[run]\njoin_ms = 3000\n", of_loss("logistic", "")),
    )
    .expect("writable");
    let ended = run_in(folder, "local --inputs rows --run run.toml --json".split(' '));
    assert_eq!(ended.code, 7, "{}", ended.stdout);
    std::fs::write(folder.join("rows/party-3.csv"), "1,2,3\n").expect("writable");
    refused(7, "party-", &whole);
    std::fs::write(folder.join("rows/party-3.csv"), "1,2,NaN,4,5,6,7\n").expect("writable");
    refused(7, "party-3", &whole);
}
