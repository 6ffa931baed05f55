use crate::site::Site;
use proptest::prelude::*;

use super::*;

const CONF: &str = "# Two racks.\nSwitchName=s1 Nodes=n[1-2] LinkSpeed=100\n\
                    switchname=s2 \\\n  nodes=n[3-4]\nSwitchName=top Switches=s[1-2] # the spine\n";

const YAML: &str = "---\n- topology: flat\n  flat: true\n- topology: racks\n  cluster_default: true\n  \
                    tree:\n    switches:\n      - switch: s1\n        nodes: n[1-2]\n      \
                    - switch: s2\n        nodes: n[3-4]\n      - switch: top\n        \
                    children: s[1-2]\n";

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn both_files_describe_the_same_tree() {
    let tree = Tree::from_conf(CONF).unwrap();
    assert_eq!(Tree::from_yaml(YAML).unwrap(), tree);
    let [s1, s2, top] = tree.switches() else { panic!("{tree:?}") };
    assert_eq!((&s1.nodes, &s2.nodes), (&names(&["n1", "n2"]), &names(&["n3", "n4"])));
    assert_eq!((top.name.as_str(), &top.children), ("top", &names(&["s1", "s2"])));
}

#[test]
fn the_files_made_from_it_are_a_site() {
    let node = |(name, address): (&str, &str)| Node {
        name: name.into(),
        address: address.into(),
        partitions: Vec::new(),
        usable: true,
        gpus: 8,
        used: 0,
    };
    let known = [("n1", "10.9.0.1"), ("n2", "10.9.0.2"), ("n3", "node3"), ("n4", "10.9.0.4")];
    let tree = Tree::from_conf(CONF).unwrap();
    let data = |text: &str| Some(text.parse::<Subnet>().unwrap());
    let network = tree.network("topology.conf", &known.map(node), data("10.9.0.0/16"));
    assert_eq!(network.matches("\nip = ").count(), 3, "{network}");
    let site = tree.site("topology.conf", "network.toml", |name| if name == "n4" { 4 } else { 8 });
    let site = Site::parse(&site, &network).unwrap_or_else(|error| panic!("{error}\n{network}"));
    assert_eq!(site.gpus(), 28);
    let part = site.part(|_| true);
    assert_eq!(part.names, ["n1", "n2", "n3", "n4"]);
    assert_eq!(part.cluster.racks().len(), 2);

    let same = known.map(|(name, _)| node((name, "10.9.0.1")));
    assert!(
        !tree.network("", &same, data("10.9.0.0/16")).contains("ip = "),
        "addresses that are not unique"
    );
    let local = [node(("n1", "127.0.0.1"))];
    assert!(!tree.network("", &local, data("0.0.0.0/0")).contains("ip = "));
    // An address for management is none towards a switch: nothing takes it without being asked.
    for (data, own) in [(None, 0), (data("10.8.0.0/16"), 0), (data("10.9.0.2/31"), 1)] {
        let network = tree.network("topology.conf", &known.map(node), data);
        assert_eq!(network.matches("\nip = ").count(), own, "{data:?}: {network}");
        assert_eq!(network.matches("\n# ip = \"10.9.0.").count(), 3 - own, "{data:?}: {network}");
        Site::parse(&tree.site("", "network.toml", |_| 8), &network).unwrap();
    }
}

#[test]
fn a_network_has_the_addresses_with_its_prefix() {
    let contains = |subnet: &str, address: &str| {
        subnet.parse::<Subnet>().unwrap().contains(address.parse().unwrap())
    };
    for (subnet, address, inside) in [
        ("10.9.0.0/16", "10.9.255.1", true),
        ("10.9.0.0/16", "10.10.0.0", false),
        ("10.9.7.3/24", "10.9.7.200", true),
        ("10.9.7.3/32", "10.9.7.3", true),
        ("10.9.7.3/32", "10.9.7.2", false),
        ("0.0.0.0/0", "192.168.1.1", true),
    ] {
        assert_eq!(contains(subnet, address), inside, "{subnet} {address}");
    }
    for text in ["", "10.9.0.0", "10.9.0.0/33", "10.9.0/16", "10.9.0.0/-1", "/16", "::/0"] {
        let error = text.parse::<Subnet>().unwrap_err().to_string();
        assert!(error.starts_with("write ADDRESS/PREFIX"), "{text}: {error}");
    }
}

#[test]
fn bad_files_have_one_line() {
    for (text, words) in [
        ("", "there is no switch"),
        ("SwitchName=s1 n1", "line 1: `n1` is not a key with a value"),
        ("\nSwitchName=s1 Nodes=n[1", "line 2: Nodes: `n[1`: a bracket"),
        ("Nodes=n1", "line 1: the switch has no name"),
        ("SwitchName=s1 Ports=4", "`Ports` is unknown"),
        ("BlockName=b1 Nodes=n[1-4]", "a block topology has no switches"),
        ("SwitchName=s1 Nodes=n1,n1", "n1 is there twice"),
        ("SwitchName=s1 Nodes=n/1", "\"n/1\" is not a name"),
        ("SwitchName=s1 Switches=s2", "s1 is above s2, which is not a switch"),
        ("SwitchName=s1 Nodes=n1\nSwitchName=s2 Nodes=n2", "s1, s2 are not connected"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "every switch is below another"),
        (
            "SwitchName=t Nodes=n1\nSwitchName=a Switches=b\nSwitchName=b Switches=a",
            "a is below itself",
        ),
        (
            "SwitchName=a Switches=c\nSwitchName=b Switches=c\nSwitchName=c Nodes=n",
            "c is below a and b",
        ),
    ] {
        let error = Tree::from_conf(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let two = YAML.replace("cluster_default: true", "cluster_default: false");
    assert!(Tree::from_yaml(&two).is_ok(), "the only tree");
    for word in ["yes", "on", "True", "\"true\""] {
        let other = YAML.replace("cluster_default: true", &format!("cluster_default: {word}"));
        assert_eq!(Tree::from_yaml(&other).unwrap(), Tree::from_yaml(YAML).unwrap(), "{word}");
    }
    let nothing =
        "- topology: a\n  tree:\n    switches:\n    - { switch: s, nodes: n, children: ~ }\n";
    assert_eq!(
        Tree::from_yaml(nothing).unwrap(),
        Tree::from_yaml(&nothing.replace(", children: ~", "")).unwrap()
    );
    let again = two.clone() + &two.trim_start_matches("---\n").replace("racks", "more");
    for (text, words) in [
        ("tree", "invalid type: string \"tree\", expected a sequence"),
        (
            "- topology: a\n  tree: { switches: [{ switch: [3] }] }\n",
            "[0].tree.switches[0].switch: invalid type: sequence, expected a string at line 2",
        ),
        ("- topology: a\n  flat: true\n", "there is no tree in it"),
        ("- topology: a\n  cluster_default: true\n  flat: true\n", "topology a is not a tree"),
        ("- topology: a\n  cluster_default: maybe\n", "`maybe` is neither true nor false"),
        (again.as_str(), "topologies racks and more are trees"),
        (
            "- topology: a\n  tree:\n    switches:\n    - switch: s\n      nodes: n[1\n",
            "switch s: `n[1`",
        ),
    ] {
        let error = Tree::from_yaml(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// A tree of switches over nodes: for each switch its number of nodes, and which earlier one is
/// above it.
fn trees() -> impl Strategy<Value = Vec<TreeSwitch>> {
    prop::collection::vec((0_usize..4, any::<prop::sample::Index>()), 1..12).prop_map(|shapes| {
        let mut switches: Vec<TreeSwitch> = Vec::new();
        for (at, (nodes, above)) in shapes.into_iter().enumerate() {
            let name = format!("s{at}");
            if at > 0 {
                let parent = above.index(at);
                switches[parent].children.push(name.clone());
            }
            let nodes = (0..nodes).map(|node| format!("n{at}-{node}")).collect();
            switches.push(TreeSwitch { name, nodes, children: Vec::new() });
        }
        switches
    })
}

proptest! {
    #[test]
    fn written_trees_are_read_back(switches in trees()) {
        let (mut conf, mut yaml) = (String::new(), "- topology: t\n  tree:\n    switches:\n".to_owned());
        for TreeSwitch { name, nodes, children } in &switches {
            let _ = write!(conf, "SwitchName={name}");
            let _ = writeln!(yaml, "    - switch: {name}");
            for (key, low, list) in [("Nodes", "nodes", nodes), ("Switches", "children", children)] {
                if !list.is_empty() {
                    let _ = write!(conf, " {key}={}", list.join(","));
                    let _ = writeln!(yaml, "      {low}: {}", list.join(","));
                }
            }
            conf.push('\n');
        }
        prop_assert_eq!(Tree::from_conf(&conf).unwrap().0, switches.clone());
        prop_assert_eq!(Tree::from_yaml(&yaml).unwrap().0, switches);
    }

    #[test]
    fn any_text_is_a_tree_or_an_error(text in "(SwitchName|Nodes|Switches|=|s1|n\\[1-2\\]|,|#|\\\\|\n| ){0,20}") {
        let _ = Tree::from_conf(&text);
        let _ = Tree::from_yaml(&text);
    }
}
