use super::*;

fn wanted(port: u16) -> Vec<Wanted> {
    let one = |role, key: &str, value: String| Wanted {
        scope: "desk".into(),
        role,
        change: Change { key: key.into(), value: Some(value) },
    };
    vec![
        one(Role::Endpoint, "host", "127.0.0.1".into()),
        one(Role::Endpoint, "port", port.to_string()),
        one(Role::Detail, "bypass", "localhost".into()),
        one(Role::Switch, "mode", "manual".into()),
    ]
}

fn values(pairs: &[(&str, &str)]) -> Values {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn apply(present: &mut Values, changes: &[Change]) {
    for change in changes {
        match &change.value {
            Some(value) => present.insert(change.key.clone(), value.clone()),
            None => present.remove(&change.key),
        };
    }
}

fn write(present: &mut Values, wanted: &[Wanted]) {
    apply(present, &wanted.iter().map(|wanted| wanted.change.clone()).collect::<Vec<_>>());
}

#[test]
fn everything_comes_back_even_what_was_never_set() {
    let before = values(&[("mode", "none"), ("host", "proxy.corp"), ("port", "8080")]);
    let entries = entries("fake", wanted(2080), &before, &[]);
    let mut now = before.clone();
    write(&mut now, &wanted(2080));
    let back = restoration(&entries.iter(), &now);
    assert_eq!(back.changes.first().map(|change| change.key.as_str()), Some("mode"), "off first");
    apply(&mut now, &back.changes);
    assert_eq!(now, before);
    assert!(back.foreign.is_empty());
}

#[test]
fn any_prefix_of_the_change_is_undone() {
    let before = values(&[("mode", "auto"), ("script", "http://corp/pac")]);
    let entries = entries("fake", wanted(2080), &before, &[]);
    for written in 0..=wanted(2080).len() {
        let mut now = before.clone();
        write(&mut now, &wanted(2080)[..written]);
        let back = restoration(&entries.iter(), &now);
        // …and so is any prefix of the undoing, by whoever comes next.
        for undone in 0..=back.changes.len() {
            let mut half = now.clone();
            apply(&mut half, &back.changes[..undone]);
            let rest = restoration(&entries.iter(), &half);
            assert!(rest.foreign.is_empty());
            apply(&mut half, &rest.changes);
            assert_eq!(half, before);
        }
    }
}

#[test]
fn a_strangers_proxy_stays_on() {
    let before = values(&[("mode", "none")]);
    let entries = entries("fake", wanted(2080), &before, &[]);
    let mut now = before;
    write(&mut now, &wanted(2080));
    now.insert("host".into(), "other.example".into());
    now.insert("port".into(), "3128".into());
    let back = restoration(&entries.iter(), &now);
    apply(&mut now, &back.changes);
    assert_eq!(now, values(&[("mode", "manual"), ("host", "other.example"), ("port", "3128")]));
    assert_eq!(back.foreign, ["mode", "port", "host"]);
}

#[test]
fn switched_off_by_hand_stays_off_and_the_rest_comes_back() {
    let before = values(&[("mode", "auto"), ("host", "a"), ("port", "1")]);
    let entries = entries("fake", wanted(2080), &before, &[]);
    let mut now = before;
    write(&mut now, &wanted(2080));
    now.insert("mode".into(), "none".into());
    let back = restoration(&entries.iter(), &now);
    apply(&mut now, &back.changes);
    assert_eq!(now, values(&[("mode", "none"), ("host", "a"), ("port", "1")]));
}

#[test]
fn a_change_of_port_keeps_the_first_previous_values_at_any_moment() {
    let before = values(&[("mode", "none"), ("port", "8080")]);
    let first = entries("fake", wanted(2080), &before, &[]);
    let mut now = before.clone();
    write(&mut now, &wanted(2080));
    let second = entries("fake", wanted(2081), &now, &first);
    for written in 0..=wanted(2081).len() {
        let mut half = now.clone();
        write(&mut half, &wanted(2081)[..written]);
        let back = restoration(&second.iter(), &half);
        apply(&mut half, &back.changes);
        assert_eq!(half, before, "after {written} writes");
    }
}

#[test]
fn a_value_changed_by_others_before_a_take_over_is_the_new_previous_one() {
    let before = values(&[("mode", "none"), ("port", "8080")]);
    let first = entries("fake", wanted(2080), &before, &[]);
    let mut now = before;
    write(&mut now, &wanted(2080));
    now.insert("port".into(), "3128".into());
    let second = entries("fake", wanted(2081), &now, &first);
    let port = second.iter().find(|entry| entry.key == "port").unwrap();
    assert_eq!(port.previous.as_deref(), Some("3128"));
    let mode = second.iter().find(|entry| entry.key == "mode").unwrap();
    assert_eq!(mode.previous.as_deref(), Some("none"));
}

#[test]
fn settings_of_a_service_that_has_gone_are_remembered() {
    let before = values(&[("mode", "none")]);
    let first = entries("fake", wanted(2080), &before, &[]);
    let mut now = before;
    write(&mut now, &wanted(2080));
    let second = entries("fake", Vec::new(), &now, &first);
    assert_eq!(second, first);
}
