/**
 * Reads the plan that Spark has made of a user's SQL or DataFrames, for the compiler in Python: the
 * rules that make it plain, its description, and its expressions over other rows. It knows Spark's
 * logical plans, and nothing of operators.
 */
package headrace.kernel.compiler;
