// Runs moescope-cli claims as a user does.
#include <cstdlib>
#include <fstream>

#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

class Claims : public Cli {
 protected:
  void write_claim(const std::string& figure) const {
    std::ofstream(path("tiny.toml")) << "title = \"Tiny\"\nstatement = \"S\"\nsource = \"A\"\nsteps = 9\nseeds = 3\n"
                                        "[runs]\npreset = \"nano\"\nset = { data.batch = 2, data.seq = 16 }\n"
                                        "[[runs.run]]\nname = \"k1\"\nset = { router.top_k = 1 }\n"
                                        "[[compare]]\ntext = \"t\"\npublished = \"+1\"\nfigure = \""
                                     << figure << "\"\nexpect = \"higher\"\n";
  }
};

TEST_F(Claims, TriesAFileOnAllThreadsAndKeepsItsNumbers) {
  write_claim("ce_loss");
  const std::vector<std::string> command = {"claims", path("tiny.toml"), "--out", path("r.toml"), "--steps",
                                            "2",      "--seeds",         "2"};
  const Result first = run(command, [] { setenv("OMP_NUM_THREADS", "3", 1); });
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.err.find("4 of 4 runs"), std::string::npos) << first.err;
  EXPECT_NE(first.out.find("2 seeds"), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("(3 threads, "), std::string::npos) << first.out;
  EXPECT_NE(read("r.toml").find("\nsteps = 2\n"), std::string::npos);
  const Result repeated = run(command);
  EXPECT_EQ(repeated.status, 2);
  EXPECT_NE(repeated.err.find("r.toml: exists;"), std::string::npos) << repeated.err;
}

TEST_F(Claims, ShowsTheKeptTable) {
  const Result table = run({"claims"});
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.out.find("frozen-router"), std::string::npos) << table.out;
  const Result markdown = run({"claims", "--markdown"});
  EXPECT_TRUE(markdown.out.starts_with("| claim | compared | source |")) << markdown.out;
  EXPECT_NE(run({"claims", "--list"}).out.find("issues 5502"), std::string::npos);
}

TEST_F(Claims, NamesFileAndLineOfAProblem) {
  write_claim("los");
  const Result wrong = run({"claims", path("tiny.toml"), "--out", path("r.toml")});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("tiny.toml:15: compare 1.figure: there is no metric los"), std::string::npos) << wrong.err;
  EXPECT_FALSE(fs::exists(path("r.toml")));
  EXPECT_EQ(run({"claims", "frozen"}).status, 2);
}

}  // namespace
}  // namespace moescope
