/**
 * The only room that knows what Spark does not promise to keep: logical plans, expressions, the
 * execution of a query, its shuffle and its checkpoint files. Everything that builds or reads a
 * plan is here.
 */
package headrace.kernel.spark;
