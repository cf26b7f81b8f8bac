//! What the flow controller does with extreme samples.

use super::*;
