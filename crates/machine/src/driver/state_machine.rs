//! placeholder
use serde_json::Value;
use super::{Driver, DriverKind, Registry};
/// placeholder
#[derive(Debug)]
pub struct StateMachineKind;
impl DriverKind for StateMachineKind {
    fn name(&self) -> &str { "state_machine" }
    fn version(&self) -> u32 { 1 }
    fn create(&self, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> { Err("placeholder".to_owned()) }
    fn load(&self, _: &Value, _: &Value, _: &Registry) -> Result<Box<dyn Driver>, String> { Err("placeholder".to_owned()) }
}
