//! The one integration binary.

mod simulation;
