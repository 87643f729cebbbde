//! Lobbies: people who do not trust their host make one list, on this machine and from behind
//! routers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use undertone_tests::person::Person;
use undertone_tests::ports::Ports;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Signal, left_out, run_in, signal, undertone};

/// Starts `undertone group` with these words, in the shell that `command` begins.
fn person(command: Command, folder: &Path, name: &str, words: &str) -> Person {
    let undertone = undertone();
    let script = format!(
        "exec {} group {words} --identity {name}.key --peers {name}.toml --json --events \"$EVENTS\"",
        undertone.display()
    );
    Person::new(command, folder, name, &script)
}

fn key(folder: &Path, name: &str, more: &[&str]) {
    let file = format!("{name}.key");
    let words = ["identity", "new", "--out", &file]
        .into_iter()
        .chain(more.iter().copied());
    assert_eq!(run_in(folder, words).code, 0, "{name}");
}

/// All have one number, type it, and have one list, with signatures of all.
fn all_agree(folder: &Path, mut people: Vec<Person>) -> Duration {
    let number = people[0].number();
    for person in &mut people[1..] {
        assert_eq!(person.number(), number, "{}", person.name);
    }
    people.iter_mut().for_each(|person| person.types(&number));
    let last_yes = Instant::now();
    let count = people.len();
    let mut lists = vec![];
    for person in people {
        let object = person.running.wait().json_of(0);
        assert_eq!(object["outcome"], "in force", "{object}");
        lists.push(std::fs::read_to_string(folder.join(format!("{}.toml", person.name))).expect("a list"));
        let signatures =
            std::fs::read_to_string(folder.join(format!("{}.sig", person.name))).expect("beside it");
        assert_eq!(signatures.matches("[[signature]]").count(), count);
    }
    let took = last_yes.elapsed();
    assert!(lists.iter().all(|list| *list == lists[0]));
    assert_eq!(lists[0].matches("[[peer]]").count(), count);
    took
}

/// A lobby on this machine that is not closed yet: alice, who is the host, and these guests.
fn lobby_of(folder: &Path, guests: &[&str]) -> Vec<Person> {
    let ports = Ports::hold(1);
    let at = format!("/ip4/127.0.0.1/tcp/{}", ports[0]);
    // Nobody else takes it before this process ends: the host may open its lobby again.
    std::mem::forget(ports);
    key(folder, "alice", &["--private", &at]);
    let mut people = vec![person(Command::new("sh"), folder, "alice", "open --name heart")];
    let invitation = people[0].until("open")["invitation"]
        .as_str()
        .expect("a text")
        .to_owned();
    std::fs::write(folder.join("invitation"), &invitation).expect("writable");
    for name in guests {
        key(folder, name, &[]);
        let words = format!("join {invitation}");
        let guest = person(Command::new("sh"), folder, name, &words);
        people[0].until("sat");
        people.push(guest);
    }
    people
}

#[test]
fn a_lobby_on_one_machine_makes_one_list_and_a_member_confirms_the_next_by_its_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut people = lobby_of(folder, &["bob", "carol", "dave"]);
    people[0].types("remove dave");
    people[0].until("left");
    let dave = people.pop().expect("four");
    assert_eq!(dave.running.wait().json_of(4)["error"]["field"], "INVITATION");
    assert!(!folder.join("dave.toml").exists());
    people[0].types("");
    all_agree(folder, people);
    let number = run_in(folder, ["peers", "number", "bob.toml", "--json"]).json_of(0);
    let number = number["number"].as_str().expect("digits");
    assert_eq!(number.len(), 40);
    // A list that goes by mail: all have signed it.
    let confirm = |number: &str, to: &str| {
        let words =
            format!("group confirm alice.toml --identity bob.key --peers {to} --number {number} --json");
        run_in(folder, words.split(' '))
    };
    confirm(&"1".repeat(40), "new.toml").refused_at(4, "--number");
    assert!(!folder.join("new.toml").exists());
    assert_eq!(confirm(number, "new.toml").json_of(0)["outcome"], "in force");
    // One signature is missing, and there is no list of now that would do without.
    let signatures = std::fs::read_to_string(folder.join("alice.sig")).expect("signatures");
    let cut = signatures.rfind("\n[[signature]]").expect("several");
    std::fs::write(folder.join("alice.sig"), &signatures[..cut]).expect("writable");
    let refusal = confirm(number, "other.toml").refused(4, "carol");
    assert!(!folder.join("other.toml").exists(), "{refusal}");
    // With the old list, whose lines stay, only its own yes is needed.
    assert_eq!(confirm(number, "bob.toml").json_of(0)["outcome"], "in force");
}

/// The list of now gets a member, a relay, and the yes of one that did not come.
#[test]
fn a_list_that_is_changed_needs_the_new_ones_and_each_members_own_yes() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut people = lobby_of(folder, &["bob", "carol"]);
    people[0].types("");
    all_agree(folder, people);
    let before = std::fs::read_to_string(folder.join("carol.toml")).expect("a list");
    for (from, to) in [("alice.toml", "first.toml"), ("alice.sig", "first.sig")] {
        std::fs::copy(folder.join(from), folder.join(to)).expect("by mail");
    }
    std::fs::remove_file(folder.join("alice.keys")).expect("of the first meeting");
    std::fs::remove_file(folder.join("alice.events")).expect("of the first meeting");
    key(folder, "port", &["--private", "/dns/relay.example/tcp/443"]);
    let lines = run_in(folder, ["identity", "show", "port.key", "--json"]).json_of(0);
    let id = lines["id"].as_str().expect("an id");
    let relays = format!(
        "version = 1\n[[relay]]\nname = \"port\"\nid = \"{id}\"\nat = [\"/dns/relay.example/tcp/443\"]\n"
    );
    std::fs::write(folder.join("relays.toml"), relays).expect("writable");

    let words = "open --name heart --from alice.toml --relays relays.toml";
    let mut alice = person(Command::new("sh"), folder, "alice", words);
    let opened = alice.until("open");
    key(folder, "dave", &[]);
    let words = format!("join {}", opened["invitation"].as_str().expect("a text"));
    // Without the list of now only the host would vouch for who is not here.
    let dave = person(Command::new("sh"), folder, "dave", &words);
    alice.until("sat");
    alice.types("");
    dave.running.wait().refused_at(4, "--peers");
    alice.until("left");
    // The lobby closes anew without it.
    alice.number();
    for file in ["dave.keys", "dave.events"] {
        std::fs::remove_file(folder.join(file)).expect("of the first try");
    }
    std::fs::copy(folder.join("carol.toml"), folder.join("dave.toml")).expect("by mail");
    let mut dave = person(Command::new("sh"), folder, "dave", &words);
    alice.until("sat");
    alice.types("");
    let asked = dave.until("number");
    assert_eq!(asked["kept"], serde_json::json!(["bob", "carol"]));
    let number = asked["number"].as_str().expect("digits").to_owned();
    assert_eq!(alice.number(), number);
    for person in [&mut alice, &mut dave] {
        person.types(&number);
    }
    for person in [alice, dave] {
        assert_eq!(person.running.wait().json_of(0)["outcome"], "in force");
    }
    let list = std::fs::read_to_string(folder.join("alice.toml")).expect("a list");
    assert_eq!(
        (
            list.matches("[[peer]]").count(),
            list.matches("[[relay]]").count()
        ),
        (4, 1)
    );

    // It goes by mail to Carol, for whom the old one is in force until she has said yes.
    assert_eq!(
        std::fs::read_to_string(folder.join("carol.toml")).expect("a list"),
        before
    );
    let number = run_in(folder, ["peers", "number", "alice.toml", "--json"]).json_of(0);
    let number = number["number"].as_str().expect("digits");
    let words =
        format!("group confirm alice.toml --identity carol.key --peers carol.toml --number {number} --json");
    let confirmed = |words: &str| run_in(folder, words.split(' '));
    assert_eq!(confirmed(&words).json_of(0)["outcome"], "in force");
    let now = || std::fs::read_to_string(folder.join("carol.toml")).expect("a list");
    assert_eq!(now(), list);
    refuses_old_lists_and_revoked_keys(folder, &words);
    assert_eq!(now(), list);
}

/// The list of before, which all have signed, comes by mail once more; and the one of now, which
/// `words` confirm, once a key in it is revoked.
fn refuses_old_lists_and_revoked_keys(folder: &Path, words: &str) {
    let confirmed = |words: &str| run_in(folder, words.split(' '));
    let number = run_in(folder, ["peers", "number", "first.toml", "--json"]).json_of(0);
    let number = number["number"].as_str().expect("digits");
    let old =
        format!("group confirm first.toml --identity carol.key --peers carol.toml --number {number} --json");
    confirmed(&old).refused(4, "of another one");
    let line = run_in(folder, ["identity", "revoke", "--identity", "bob.key"]).stdout;
    std::fs::write(folder.join("revoked.txt"), line).expect("writable");
    confirmed(&format!("{words} --keys revoked.txt")).refused(3, "revoked by itself");
}

#[test]
fn a_guest_that_dies_after_its_yes_confirms_the_list_by_mail() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut people = lobby_of(folder, &["bob", "carol"]);
    people[0].types("");
    let number = people[0].number();
    people[1..]
        .iter_mut()
        .for_each(|person| assert_eq!(person.number(), number));
    people[1].types(&number);
    assert_eq!(people[0].until("yes")["name"], "bob");
    let bob = people.remove(1);
    signal(bob.running.pid(), Signal::SIGKILL);
    bob.running.wait();
    people.iter_mut().for_each(|person| person.types(&number));
    for person in people {
        assert_eq!(
            person.running.wait().json_of(0)["outcome"],
            "in force",
            "its yes stands"
        );
    }
    assert!(!folder.join("bob.toml").exists());
    let number = run_in(folder, ["peers", "number", "alice.toml", "--json"]).json_of(0);
    let number = number["number"].as_str().expect("digits");
    let words =
        format!("group confirm alice.toml --identity bob.key --peers bob.toml --number {number} --json");
    assert_eq!(run_in(folder, words.split(' ')).json_of(0)["outcome"], "in force");
}

/// Strangers that connect and say nothing take no place for long, and no memory.
#[test]
fn a_thousand_silent_guests_keep_nobody_out() {
    const STRANGERS: usize = 1_000;
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("a limit");
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit.1, limit.1)
        .expect("ours");
    let mut people = lobby_of(folder, &["bob"]);
    let at = run_in(folder, ["identity", "show", "alice.key", "--json"]).json_of(0);
    let port = at["private"]
        .as_str()
        .and_then(|at| at.rsplit('/').next())
        .expect("a port");
    let address = format!("127.0.0.1:{port}");
    let strangers: Vec<std::net::TcpStream> = (0..STRANGERS)
        .map(|_| std::net::TcpStream::connect(&address).expect("it listens"))
        .collect();
    key(folder, "carol", &[]);
    let opened = std::fs::read_to_string(folder.join("invitation")).expect("the invitation");
    let carol = person(Command::new("sh"), folder, "carol", &format!("join {opened}"));
    people[0].until("sat");
    people.push(carol);
    let pid = people[0].running.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a number");
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().expect("kB");
    assert!(resident < 64 << 10, "{resident} kB");
    people[0].types("");
    all_agree(folder, people);
    drop(strangers);
}

#[test]
fn a_no_or_a_host_that_goes_writes_nothing_and_exits_4() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut people = lobby_of(folder, &["bob", "carol", "dave"]);
    people[0].types("");
    let number = people[0].number();
    people
        .iter_mut()
        .skip(1)
        .for_each(|person| assert_eq!(person.number(), number));
    people[0].types(&number);
    people[1].types(&number);
    people[2].types("no");
    people[0].until("void");
    signal(people[0].running.pid(), Signal::SIGTERM);
    for person in people {
        let name = person.name.clone();
        person.running.wait().refused(4, "nothing was written");
        assert!(!folder.join(format!("{name}.toml")).exists(), "{name}");
    }
}

#[test]
fn an_invitation_that_is_none_is_refused_and_never_repeated() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    key(folder, "bob", &[]);
    for text in ["utn1abc", "hello", "utn1marked2marked2marked2"] {
        let words = format!("group join {text} --identity bob.key --peers peers.toml --json");
        let ended = run_in(folder, words.split(' '));
        ended.refused_at(2, "INVITATION");
        assert!(
            !format!("{}{}", ended.stdout, ended.stderr).contains(text),
            "{}",
            ended.stdout
        );
    }
}

/// N9: twenty parties, nineteen of them behind routers.
#[test]
fn twenty_meet_in_a_lobby_nineteen_of_them_behind_routers() {
    const COUNT: usize = 20;
    if let Err(missing) = possible() {
        return left_out("a lobby from behind routers", &missing);
    }
    let weather = Weather {
        loss_percent: 0,
        delay: Duration::ZERO,
    };
    let mut net = Testnet::new(COUNT, weather);
    (1..COUNT).for_each(|host| net.put_behind_router(host, 20));
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let [at, _] = net.listeners(0);
    key(folder, "host", &["--private", &at]);
    let words = format!("open --name twenty --seats {COUNT}");
    let mut people = vec![person(net.command(0, "sh"), folder, "host", &words)];
    let invitation = people[0].until("open")["invitation"]
        .as_str()
        .expect("a text")
        .to_owned();
    for host in 1..COUNT {
        let name = format!("lab-{host}");
        key(folder, &name, &[]);
        let words = format!("join {invitation}");
        people.push(person(net.command(host, "sh"), folder, &name, &words));
    }
    let took = all_agree(folder, people);
    println!("in force {took:?} after the last yes");
    assert!(took < Duration::from_secs(10), "{took:?}");
}
