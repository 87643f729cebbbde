use super::*;
use crate::reporting::failure::Exit;

/// A folder with a key, a peer list of four, and `node.toml`.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(node: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut peers = String::from("version = 1\n");
        for (index, name) in ["alice", "bob", "carol", "dave"].into_iter().enumerate() {
            let address = |port: usize| Some(format!("/ip4/127.0.0.1/tcp/{}", 7001 + 2 * index + port));
            let identity = Identity::generate(name.into(), address(0), address(1));
            identity
                .create(&folder.path().join(format!("{name}.key")))
                .unwrap();
            peers += &identity.peer_lines();
        }
        std::fs::write(folder.path().join("peers.toml"), peers).unwrap();
        std::fs::write(
            folder.path().join("node.toml"),
            format!("identity = \"bob.key\"\n{node}"),
        )
        .unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self, arguments: NodeArgs, environment: &[(&str, &str)]) -> Result<Config, Failure> {
        let config = Some(self.path("node.toml"));
        let environment = environment
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        Config::from_parts(&NodeArgs { config, ..arguments }, environment)
    }
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let folder = Folder::new(
        "state = \"from-file\"\n[policy]\nmax_epsilon = 1.0\nmax_runs = 3\n[api]\nlisten = \"127.0.0.1:7300\"\n",
    );
    let config = folder.load(NodeArgs::default(), &[]).unwrap();
    assert_eq!(config.state, folder.path("from-file"));
    assert_eq!(
        (
            config.policy.max_epsilon,
            config.policy.min_colluders,
            config.max_runs
        ),
        (Some(1.0), 1, 3)
    );
    assert_eq!(
        (config.identity.name.as_str(), config.private[0].as_str()),
        ("bob", "/ip4/127.0.0.1/tcp/7003")
    );
    assert_eq!(config.api.token, folder.path("from-file/api.token"));

    let environment = [
        ("UNDERTONE_STATE", "elsewhere"),
        ("UNDERTONE_POLICY_MAX_EPSILON", "0.5"),
        ("UNDERTONE_API_LISTEN", "unix:a.sock"),
    ];
    let config = folder.load(NodeArgs::default(), &environment).unwrap();
    assert_eq!(
        (config.state, config.policy.max_epsilon),
        (PathBuf::from("elsewhere"), Some(0.5))
    );
    assert_eq!(config.api.listen, ApiListen::Unix("a.sock".into()));

    let flags = NodeArgs {
        max_epsilon: Some(0.25),
        api: Some("[::1]:7301".into()),
        ..NodeArgs::default()
    };
    let config = folder.load(flags, &environment).unwrap();
    assert_eq!(
        (config.state.as_path(), config.policy.max_epsilon),
        (Path::new("elsewhere"), Some(0.25))
    );
    assert_eq!(config.api.listen.to_string(), "[::1]:7301");
    let shown: Vec<_> = config
        .shown()
        .filter(|(field, ..)| field == "policy.max_epsilon" || field == "state")
        .collect();
    assert_eq!(shown[0].1, "\"elsewhere\"");
    let shown_default = config
        .shown()
        .find(|(field, ..)| field == "policy.min_colluders")
        .unwrap();
    assert_eq!(
        (shown_default.1.as_str(), shown_default.2.as_str()),
        ("1", "default"),
        "its table is written, it is not"
    );
    assert_eq!(
        (shown[0].2.as_str(), shown[1].2.as_str()),
        ("environment variable UNDERTONE_STATE", "--max-epsilon")
    );
}

const ONE_SET: &str = "[[data_set]]\nname = \"ward\"\nfile = \"w.npy\"\nepsilon = 1.0\ndelta = 1e-6\n";

#[test]
fn mistakes_are_named_with_their_line() {
    let set = ONE_SET;
    for (text, line, field) in [
        ("sate = \"x\"\n".to_owned(), 2, "sate"),
        ("[policy]\nmax_epsilom = 1\n".to_owned(), 3, "policy.max_epsilom"),
        (
            "[policy]\nmax_epsilon = \"one\"\n".to_owned(),
            3,
            "policy.max_epsilon",
        ),
        ("[policy]\nmax_epsilon = -1\n".to_owned(), 3, "policy.max_epsilon"),
        (
            "[policy]\nmax_epsilon = 1\nvouched = [\"bob\"]\n".to_owned(),
            4,
            "policy.vouched.0",
        ),
        ("[policy]\nvouched = []\n".to_owned(), 3, "policy.vouched"),
        ("[policy]\nmax_delta = 0\n".to_owned(), 3, "policy.max_delta"),
        ("[policy]\nmax_delta = 1.5\n".to_owned(), 3, "policy.max_delta"),
        ("[policy]\nmax_delta = nan\n".to_owned(), 3, "policy.max_delta"),
        ("[policy]\nmax_runs = 0\n".to_owned(), 3, "policy.max_runs"),
        ("version = 2\n".to_owned(), 2, "version"),
        (
            "[listen]\nprivate = \"localhost:7001\"\n".to_owned(),
            3,
            "listen.private",
        ),
        ("[api]\nlisten = \"everywhere\"\n".to_owned(), 3, "api.listen"),
        (set.replace("1e-6", "1.0"), 6, "data_set.0.delta"),
        (set.replace("w.npy", "../w.npy"), 4, "data_set.0.file"),
        (format!("{set}{set}"), 8, "data_set.1.name"),
        // Runs of the one would not count for the other.
        (
            format!("{set}{}", set.replace("\"ward\"", "\"bed\"")),
            9,
            "data_set.1.file",
        ),
        (
            format!("{set}unit = \"record\"\n{}", set.replace("\"ward\"", "\"bed\"")),
            10,
            "data_set.1.file",
        ),
        (
            format!("{set}[[auto_accept]]\nproposer = \"mallory\"\ndata_set = \"ward\"\n"),
            8,
            "auto_accept.0.proposer",
        ),
        (
            format!("{set}[[auto_accept]]\nproposer = \"alice\"\ndata_set = \"bed\"\n"),
            9,
            "auto_accept.0.data_set",
        ),
        (
            format!("{set}[[auto_accept]]\nproposer = \"alice\"\ndata_set = \"ward\"\n"),
            8,
            "auto_accept.0.proposer",
        ),
    ] {
        let failure = Folder::new(&text)
            .load(NodeArgs::default(), &[])
            .expect_err(&text);
        assert_eq!(failure.exit, Exit::Usage, "{text}");
        assert_eq!(failure.field.as_deref(), Some(field), "{text}{failure}");
        assert!(
            failure.message.contains(&format!("node.toml, line {line}:")),
            "{text}{failure}"
        );
    }
}

#[test]
fn a_loss_that_is_no_number_is_named_with_its_line() {
    let failure = Folder::new("[policy]\nmax_epsilon = nan\n")
        .load(NodeArgs::default(), &[])
        .expect_err("no number");
    assert_eq!(failure.field.as_deref(), Some("policy.max_epsilon"));
}

#[test]
fn one_file_may_be_a_data_set_of_each_unit() {
    let set = ONE_SET;
    let both = format!("{set}{set}unit = \"record\"\n");
    let both = Folder::new(&both)
        .load(NodeArgs::default(), &[])
        .expect("one file, one name");
    assert_eq!(both.data_sets.len(), 2);
}

#[test]
fn mistakes_outside_of_the_file_are_named_with_where_they_were_given() {
    let folder = Folder::new("");
    let failure = folder
        .load(NodeArgs::default(), &[("UNDERTONE_POLICY_MAX_RUNS", "many")])
        .unwrap_err();
    assert!(
        failure
            .message
            .contains("environment variable UNDERTONE_POLICY_MAX_RUNS"),
        "{failure}"
    );
    let failure = folder
        .load(
            NodeArgs {
                api: Some("here".into()),
                ..NodeArgs::default()
            },
            &[],
        )
        .unwrap_err();
    assert!(failure.message.starts_with("--api: "), "{failure}");
}

#[test]
fn what_is_shown_tells_no_secret() {
    let folder = Folder::new("");
    std::fs::write(folder.path("api.token"), "a token that nobody may see").unwrap();
    let config = folder.load(NodeArgs::default(), &[]).unwrap();
    let shown: String = config
        .shown()
        .map(|(field, value, place)| format!("{field} = {value}  # {place}\n"))
        .collect();
    assert_eq!(
        shown.lines().count(),
        KEYS.iter().filter(|key| !LISTS.contains(&key.section)).count()
    );
    let secret = std::fs::read_to_string(folder.path("bob.key")).unwrap();
    let secret = secret
        .lines()
        .find_map(|line| line.strip_prefix("secret = "))
        .unwrap()
        .trim_matches('"');
    assert!(secret.len() > 40 && !shown.contains(secret) && !format!("{config:?}").contains(secret));
    assert!(!shown.contains("nobody may see"));
    assert!(
        shown.contains("listen.public = \"/ip4/127.0.0.1/tcp/7004\"  # default"),
        "{shown}"
    );
}

#[test]
fn the_table_has_every_key_and_its_defaults_parse() {
    let document: String = KEYS
        .iter()
        .filter_map(|key| {
            key.default
                .filter(|_| !LISTS.contains(&key.section))
                .map(|value| format!("{} = {value}\n", key.field()))
        })
        .collect();
    let folder = Folder::new("");
    std::fs::write(
        folder.path("node.toml"),
        document.replace("identity.key", "bob.key"),
    )
    .unwrap();
    std::fs::create_dir(folder.path("data")).unwrap();
    let config = folder.load(NodeArgs::default(), &[]).unwrap();
    assert_eq!(
        (
            config.max_runs,
            config.api.max_body_bytes,
            config.policy.accept_claims
        ),
        (8, 1 << 28, None)
    );
    // Each key of the table is one that the parser knows.
    for key in KEYS.iter().filter(|key| !LISTS.contains(&key.section)) {
        let failure = toml::from_str::<layers::RawConfig>(&format!("{} = {{}}", key.field())).unwrap_err();
        assert!(!failure.message().contains("unknown field"), "{}", key.field());
    }
}
