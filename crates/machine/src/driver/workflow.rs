//! placeholder
use serde_json::Value;
use super::{Driver, DriverKind, Registry};
/// placeholder
#[derive(Debug)]
pub struct WorkflowKind;
impl DriverKind for WorkflowKind {
    fn name(&self) -> &str { "workflow" }
    fn version(&self) -> u32 { 1 }
    fn create(&self, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> { Err("placeholder".to_owned()) }
    fn load(&self, _: &Value, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> { Err("placeholder".to_owned()) }
}
