package headrace.kernel.run;

/**
 * What a query is known by in this process: its name and the run that it belongs to, as
 * `totals@6f1c…`, since two runs of one session may have queries of one name. What is written to
 * the log has the bare name.
 */
public final class RunName {
  private RunName() {}

  /** The name without its run. */
  public static String bare(String name) {
    int at = name.indexOf('@');
    return at < 0 ? name : name.substring(0, at);
  }
}
