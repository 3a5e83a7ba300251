//! Declarations that the compiler refuses. Set `TRYBUILD=overwrite` to accept new wording of the compiler.

#[test]
fn wrong_types_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile-fail/*.rs");
}
