#include <memory>
#include <stdexcept>

#include "app/cli/command_line.h"
#include "core/files/output_guard.h"
#include "core/lessons/claim_results.h"

namespace moescope {
namespace {

struct ClaimsOptions {
  std::vector<std::string> names;
  std::string out;
  std::int64_t steps = 0;
  int seeds = 0;
  bool list = false, markdown = false, overwrite = false, quiet = false;
};

std::vector<Claim> chosen_claims(const ClaimsOptions& o) {
  std::vector<Claim> claims;
  std::string problems;
  for (const std::string& name : o.names.empty() ? claim_names() : o.names) {
    ParsedClaim parsed = find_claim(name);
    for (const ConfigProblem& problem : parsed.problems) problems += (problems.empty() ? "" : "\n") + problem.text();
    claims.push_back(std::move(parsed.claim));
  }
  if (!problems.empty()) throw std::runtime_error(problems);
  return claims;
}

// Applies --seeds and --steps. A comparison over the last steps of a run covers at most --steps steps.
void shorten(const ClaimsOptions& o, std::vector<Claim>& claims) {
  for (Claim& claim : claims) {
    if (o.seeds > 0) claim.seeds = o.seeds;
    if (o.steps == 0) continue;
    claim.steps = o.steps;
    for (ClaimComparison& comparison : claim.comparisons) comparison.last = std::min(comparison.last, o.steps);
  }
}

void print_list(std::span<const Claim> claims) {
  Report report;
  for (const Claim& claim : claims) {
    report.sentence(fmt::format("{:<22} {}", claim.name, claim.statement));
    report.sentence("   " + claim.source);
  }
  print_report(report);
}

void print_table(std::span<const Claim> claims, const ClaimResults& results) {
  ValueTable table({"claim", "compared", "published", "here", "verdict"});
  const std::vector<ClaimRow> rows = claim_rows(claims, results);
  for (const ClaimRow& row : rows)
    table.add(row.claim->name, row.comparison->text, row.comparison->published,
              row.gap_text().empty() ? "-" : row.gap_text(), claim_verdict_words(row.verdict));
  Report report;
  report.table("", table);
  report.lines(claim_notes(rows, results) + '\n');
  print_report(report);
}

ClaimResults try_them(const ClaimsOptions& o, std::span<const Claim> claims) {
  guard_outputs(o.names, {{"--out", o.out}}, o.overwrite);
  const ClaimResults results = try_claims(claims, [&](int ended, int all) {
    if (!o.quiet) print_to(stderr, "{} of {} runs\n", ended, all);
  });
  write_output("", o.out, to_toml(results));
  return results;
}

void run_claims(const ClaimsOptions& o) {
  std::vector<Claim> claims = chosen_claims(o);
  if (o.list) return print_list(claims);
  if (o.markdown) {
    print_out("{}", claims_in_markdown(claim_rows(claims, kept_claim_results()), kept_claim_results()));
    return;
  }
  if (o.out.empty()) return print_table(claims, kept_claim_results());
  shorten(o, claims);
  print_table(claims, try_them(o, claims));
}

}  // namespace

void add_claims_command(CLI::App& app) {
  auto options = std::make_shared<ClaimsOptions>();
  Command command(app, "claims", "Published claims, tested on small models: the kept results, or new ones with --out");
  command.option("NAME", options->names, "Names of claims, or paths of .toml files (default: all built-in ones)");
  command.option("-o,--out", options->out, "Train the runs and write the results to this .toml file");
  command.option("--steps", options->steps, "Steps of every run, instead of the claim's")
      .range(std::int64_t{1}, std::int64_t{100000});
  command.option("--seeds", options->seeds, "Seeds of every run, instead of the claim's").range(1, 100);
  command.option("--list", options->list, "List the claims with their sources");
  command.option("--markdown", options->markdown, "Print the kept results as the table of docs/claims.md");
  command.option("--overwrite", options->overwrite, "Replace the file of --out");
  command.option("--quiet", options->quiet, "No progress");
  command.runs([options] { run_claims(*options); });
}

}  // namespace moescope
