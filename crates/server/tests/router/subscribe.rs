//! Pub/Sub over all nodes: subscribers of routers and of nodes.

use crate::Cluster;
use crate::resp::{Client, until};

#[test]
fn messages_reach_subscribers_of_every_router_and_node_one_time() {
    let cluster = Cluster::start();
    let other_router = crate::router_of_both(&cluster.list).start().unwrap();
    let mut publishers: Vec<Client> = cluster.nodes.iter().map(Client::connect).collect();
    publishers.push(cluster.resp());
    publishers.push(Client::connect(&other_router));
    let mut subscriber = cluster.resp();
    let mut by_pattern = Client::connect(&other_router);
    let mut third = Client::connect_3(&cluster.router);
    assert_eq!(by_pattern.ask("PSUBSCRIBE ch*"), "[psubscribe ch* :1]");
    for channel in cluster.keys("ch") {
        assert!(
            subscriber.ask(&format!("SUBSCRIBE {channel}")).starts_with(&format!("[subscribe {channel} :"))
        );
        assert!(third.ask(&format!("SUBSCRIBE {channel}")).starts_with(&format!(">[subscribe {channel} :")));
        for (n, publisher) in publishers.iter_mut().enumerate() {
            publisher.send(&format!("PUBLISH {channel} m{n}"));
            assert!(publisher.receive().starts_with(':'));
            assert_eq!(subscriber.receive(), format!("[message {channel} m{n}]"));
            assert_eq!(third.receive(), format!(">[message {channel} m{n}]"));
            assert_eq!(by_pattern.receive(), format!("[pmessage ch* {channel} m{n}]"));
        }
        // While subscribed, a client of RESP3 sends commands.
        assert_eq!(third.ask("PING"), "+PONG");
        assert!(third.ask(&format!("SET x{channel} 1")) == "+OK");
    }
    assert!(subscriber.ask("GET a").starts_with("-ERR Can't execute 'get'"));
    assert!(subscriber.is_silent() && third.is_silent() && by_pattern.is_silent());
    assert_eq!(by_pattern.ask("PUNSUBSCRIBE ch*"), "[punsubscribe ch* :0]");
    let mut node = Client::connect(&cluster.nodes[0]);
    until("the node has unsubscribed", || node.ask("PUBSUB NUMPAT") == ":0");
    drop((subscriber, third));
    until("no channel is left", || node.ask("PUBSUB CHANNELS") == "[]");
}

#[test]
fn shard_channels_are_on_their_owners() {
    let cluster = Cluster::start();
    let (mut subscriber, mut publisher) = (cluster.resp(), cluster.resp());
    for channel in cluster.keys("shard") {
        assert!(
            subscriber.ask(&format!("SSUBSCRIBE {channel}")).starts_with(&format!("[ssubscribe {channel} :"))
        );
        publisher.expect(&[(&format!("SPUBLISH {channel} m"), ":1")]);
        assert_eq!(subscriber.receive(), format!("[smessage {channel} m]"));
    }
}

#[test]
fn subscriptions_outlive_a_node() {
    let mut cluster = Cluster::start();
    let mut subscriber = cluster.resp();
    let channels = cluster.keys("ch");
    for channel in &channels {
        subscriber.ask(&format!("SUBSCRIBE {channel}"));
    }
    cluster.nodes[2].kill().unwrap();
    let mut publisher = cluster.resp();
    publisher.expect(&[(&format!("PUBLISH {} m", channels[0]), ":1")]);
    assert_eq!(subscriber.receive(), format!("[message {} m]", channels[0]));
    // A new subscription does not wait for the node that is gone.
    assert!(subscriber.ask("SUBSCRIBE another").starts_with("[subscribe another"));
    cluster.nodes[2].restart().unwrap();
    until("the router has subscribed again", || {
        publisher.ask(&format!("PUBLISH {} again", channels[2])) == ":1"
    });
    assert_eq!(subscriber.receive(), format!("[message {} again]", channels[2]));
}

#[test]
fn monitor_shows_the_commands_of_the_router() {
    let cluster = Cluster::start();
    let (mut monitor, mut client) = (cluster.resp(), cluster.resp());
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    client.expect(&[("SET a 1", "+OK")]);
    assert!(monitor.receive().ends_with(r#""SET" "a" "1""#));
}
