// A log that numbers its steps by tokens: a thousand steps whose numbers are four million apart. Reading and writing
// must loop over the logged steps, not over all step numbers.
#include "tests/support/cli_fixture.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

class FarApartCli : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    log("a.jsonl", 0);
    log("b.jsonl", 0.01);
  }
  void log(const std::string& name, double worse) const {
    std::ofstream file(path(name));
    for (std::int64_t i = 0; i < 1000; ++i)
      file << "{\"step\":" << 4000000 * i << ",\"loss\":" << 3 + worse + 1.0 / (1.0 + static_cast<double>(i))
           << ",\"tokens_per_expert\":[[" << 250 + i % 7 << ",260,255," << 250 - i % 7 << "],[250,260,255,251]]}\n";
  }
  Result quickly(std::vector<std::string> arguments) {
    const double begin = processor_seconds(RUSAGE_CHILDREN);
    const Result result = run(std::move(arguments));
    EXPECT_LT(processor_seconds(RUSAGE_CHILDREN) - begin, 20) << result.err;  // takes a second
    return result;
  }
  void expect_small(const std::string& name) const {
    ASSERT_TRUE(fs::exists(path(name)));
    EXPECT_GT(fs::file_size(path(name)), 10'000u);
    EXPECT_LT(fs::file_size(path(name)), 3'000'000u);
  }
};

TEST_F(FarApartCli, IsCheckedImportedAndExported) {
  const Result checked = quickly({"check", path("a.jsonl"), "--json"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  const auto report = nlohmann::json::parse(checked.out);
  EXPECT_EQ(report["runs"][0]["verdict"], "Healthy") << checked.out;
  EXPECT_EQ(report["runs"][0]["steps"], (nlohmann::json{0, 3996000000}));

  const Result imported = quickly({"import", path("a.jsonl"), path("b.jsonl"), "-o", path("r.moescope")});
  EXPECT_EQ(imported.status, 0) << imported.err;
  EXPECT_NE(imported.out.find("A a: 1000 steps"), std::string::npos) << imported.out;

  const Result figures = quickly({"figures", path("r.moescope"), "--at", "2000000001", "--figure", "ce_loss"});
  EXPECT_NE(figures.out.find("step 2000000000"), std::string::npos) << figures.out << figures.err;

  for (const std::string to : {"jsonl", "replay", "trace", "html"}) {
    const Result exported = quickly({"export", path("r.moescope"), "--to", to, "-o", path("out." + to)});
    EXPECT_EQ(exported.status, 0) << to << exported.err;
  }
  expect_small("out.jsonl");
  expect_small("out.replay");
  expect_small("out.html");
  EXPECT_EQ(
      quickly({"export", path("a.jsonl"), "--with", path("b.jsonl"), "--to", "replay", "-o", path("two.html")}).status,
      0);
  expect_small("two.html");
  EXPECT_EQ(quickly({"check", path("r.moescope"), "--follow", "--until", "100", "--idle", "1"}).status, 0);
}

}  // namespace
}  // namespace moescope
