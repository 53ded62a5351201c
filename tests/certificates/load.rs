//! Calls under load; none may fail.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, PostParams};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::environment::TestEnv;
use crate::objects::resource;

impl TestEnv {
    /// Starts calls, one after another, until stopped; returns how many failed and how many were
    /// made.
    pub(crate) fn load(&self) -> Load {
        let stop = Arc::new(tokio::sync::Notify::new());
        let stopped = Arc::clone(&stop);
        let client = self.admin.clone();
        let (name, things) = (self.name.clone(), self.things("v2"));
        let task = tokio::spawn(async move {
            let resource = resource("", "v1", "ConfigMap", "configmaps");
            let api: Api<DynamicObject> = Api::namespaced_with(client, &name, &resource);
            let dry_run = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let object = DynamicObject::new("allowed", &resource);
            let (mut calls, mut failures) = (0, Vec::new());
            let work = async {
                loop {
                    calls += 2;
                    if let Err(error) = api.create(&dry_run, &object).await {
                        failures.push(error.to_string());
                    }
                    if let Err(error) = things.get("thing").await {
                        failures.push(error.to_string());
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::select! {
                () = work => {}
                () = stopped.notified() => {}
            }
            (calls, failures)
        });
        Load { stop, task }
    }
}

pub(crate) struct Load {
    stop: Arc<tokio::sync::Notify>,
    task: JoinHandle<(usize, Vec<String>)>,
}

impl Load {
    pub(crate) async fn none_failed(self) {
        self.stop.notify_one();
        let (calls, failures) = self.task.await.unwrap();
        println!("{calls} calls under load");
        assert!(calls > 20, "{calls}: too few to show anything");
        assert!(
            failures.is_empty(),
            "{} of {calls} failed: {}",
            failures.len(),
            failures[0]
        );
    }
}
