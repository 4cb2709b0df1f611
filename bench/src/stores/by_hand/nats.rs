//! NATS: one publish with the expected sequence of the subject, which is kept here. Checks of one key wait for each other.

use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::{self, stream};
use keystead_testkit::servers::Site;
use tokio::sync::Mutex;

use super::super::{Call, KEYS};
use super::{decide, failed, now_ms};

pub(crate) async fn prepare(site: Site) -> Call {
    let client = async_nats::connect(site.addresses()).await.unwrap();
    let jetstream = jetstream::new(client);
    let config = stream::Config {
        name: "by-hand".to_owned(),
        subjects: vec!["by-hand.>".to_owned()],
        max_messages_per_subject: 1,
        ..stream::Config::default()
    };
    let _ = jetstream.delete_stream("by-hand").await;
    jetstream.create_stream(config).await.unwrap();
    let states: Arc<[Mutex<(u64, f64)>]> = (0..KEYS[1]).map(|_| Mutex::new((0, 0.0))).collect();
    Arc::new(move |key| {
        let (jetstream, states) = (jetstream.clone(), Arc::clone(&states));
        Box::pin(async move {
            let mut state = states[key].lock().await;
            let tat = decide(state.1, now_ms() as f64);
            let mut headers = HeaderMap::new();
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, state.0.to_string());
            let subject = format!("by-hand.{key:05}");
            let published = jetstream.publish_with_headers(subject, headers, format!("{tat:?}").into());
            let acknowledged = published.await.map_err(failed)?.await.map_err(failed)?;
            *state = (acknowledged.sequence, tat);
            Ok(())
        })
    })
}
