// export --to checkpoint: a model folder is the old or the new one, and nothing of another kind is lost or copied.
#include <sys/resource.h>

#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

using Content = std::map<std::string, std::string>;

class CliExportCheckpoint : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run(train({"--steps", "1", "--out", path("a.moescope")})).status, 0);
    ASSERT_EQ(run(train({"--steps", "2", "--seed", "2", "--out", path("b.moescope")})).status, 0);
  }
  Result export_run(const std::string& recording, const std::vector<std::string>& more = {},
                    const std::function<void()>& prepare = {}) {
    std::vector<std::string> arguments{"export", path(recording), "--to", "checkpoint", "-o", path("model")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, prepare);
  }
  Content content() const {
    Content content;
    if (!fs::exists(path("model"))) return content;
    for (const auto& entry : fs::directory_iterator(path("model")))
      content[entry.path().filename().string()] = read("model/" + entry.path().filename().string());
    return content;
  }
  void expect_refused(const Result& result, const std::string& reason, const Content& before) {
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_NE(result.err.find(reason), std::string::npos) << result.err;
    EXPECT_EQ(content() == before, true) << "the folder has changed";
  }
};

// The recording of the command line's train has a checkpoint beside it.
TEST_F(CliExportCheckpoint, WorksAfterTrain) {
  const Result result = export_run("a.moescope");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("a.checkpoints/1/n.safetensors"), std::string::npos) << result.out;
  const Content exported = content();
  EXPECT_EQ(exported.size(), 4u);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
    EXPECT_TRUE(exported.contains(name)) << name;
  write("text.txt", std::string(200, 'a'));
  EXPECT_EQ(run({"run", path("model"), "--text", path("text.txt")}).status, 0);
}

TEST_F(CliExportCheckpoint, CheckpointsOfTheRecordingThatIsReplacedAreReplaced) {
  EXPECT_EQ(run(train({"--steps", "1", "--out", path("b.moescope"), "--overwrite"})).status, 0);
  EXPECT_TRUE(fs::exists(path("b.checkpoints/1")));
  EXPECT_FALSE(fs::exists(path("b.checkpoints/2"))) << "of the earlier training";
  fs::remove(path("b.moescope"));
  const Result refused = run(train({"--steps", "1", "--out", path("b.moescope")}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("b.checkpoints: holds checkpoints up to step 1"), std::string::npos) << refused.err;
}

TEST_F(CliExportCheckpoint, ReplacesAnEarlierExportOnlyWithOverwrite) {
  ASSERT_EQ(export_run("a.moescope").status, 0);
  const Content first = content();
  for (const char* missing : {"", "config.json", "tokenizer.json"}) {
    if (*missing) fs::remove(path("model") + '/' + missing);
    expect_refused(export_run("b.moescope"), "choose another folder, or give --overwrite to replace it", content());
  }
  ASSERT_EQ(export_run("b.moescope", {"--overwrite"}).status, 0);
  EXPECT_EQ(content().size(), 4u);
  EXPECT_NE(content().at("model.safetensors"), first.at("model.safetensors"));
}

TEST_F(CliExportCheckpoint, FilesOfAnotherModelAreNotLost) {
  for (const char* foreign : {"model.safetensors.index.json", "model-00001-of-00002.safetensors", "notes.txt"}) {
    fs::create_directories(path("model"));
    write(std::string("model/") + foreign, "kept");
    write("model/config.json", "kept");
    expect_refused(export_run("a.moescope", {"--overwrite"}), std::string("holds '") + foreign + "'", content());
    fs::remove_all(path("model"));
  }
}

TEST_F(CliExportCheckpoint, AnInputInTheFolderStays) {
  fs::create_directories(path("model"));
  fs::copy_file(path("a.checkpoints/1/n.safetensors"), path("model/model.safetensors"));
  const Content before = content();
  std::vector<std::string> onto_itself{"export",     path("model/model.safetensors"), "--to", "checkpoint", "-o",
                                       path("model")};
  expect_refused(run(onto_itself), "is also an input", before);
  onto_itself.emplace_back("--overwrite");
  expect_refused(run(onto_itself), "is also an input", before);
  fs::create_hard_link(path("model/model.safetensors"), path("same.safetensors"));
  expect_refused(run({"export", path("same.safetensors"), "--to", "checkpoint", "-o", path("model"), "--overwrite"}),
                 "is also an input", before);
}

// The limit allows files of 20 kB; the weights have more.
TEST_F(CliExportCheckpoint, AFullDiskLeavesTheFolderAsItWas) {
  ASSERT_EQ(export_run("a.moescope").status, 0);
  const Content before = content();
  const auto full = [] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const Result result = export_run("b.moescope", {"--overwrite"}, full);
  EXPECT_NE(result.status, 0);
  EXPECT_NE(result.err.find("cannot be written: File too large"), std::string::npos) << result.err;
  EXPECT_EQ(content() == before, true);
  for (const std::string& name : files()) EXPECT_EQ(name.find(".partial"), std::string::npos) << name;
}

TEST_F(CliExportCheckpoint, AKilledExportLeavesTheOldOrTheNewFolder) {
  ASSERT_EQ(export_run("b.moescope").status, 0);
  const Content after = content();
  ASSERT_EQ(export_run("a.moescope", {"--overwrite"}).status, 0);
  const Content before = content();
  for (int i = 0; i < 12; ++i) {
    const pid_t pid = start({"export", path("b.moescope"), "--to", "checkpoint", "-o", path("model"), "--overwrite"});
    std::this_thread::sleep_for(std::chrono::milliseconds(8 * i));
    kill(pid, SIGKILL);
    finish(pid);
    const Content current = content();
    EXPECT_EQ(current == before || current == after, true) << "killed after " << 8 * i << " ms";
  }
  ASSERT_EQ(export_run("b.moescope", {"--overwrite"}).status, 0) << "what the killed ones left is no obstacle";
  EXPECT_EQ(content() == after, true);
}

TEST_F(CliExportCheckpoint, SaysWhatTheModelComputesDifferently) {
  ASSERT_EQ(run(train({"--steps", "1", "--precision", "mxfp8_rceil", "--out", path("q.moescope")})).status, 0);
  const Result quantized = export_run("q.moescope");
  EXPECT_NE(quantized.out.find("The run rounds numbers (precision.experts). The exported model does not"),
            std::string::npos)
      << quantized.out;
  ASSERT_EQ(run(train({"--steps", "1", "--set", "router.n_groups=2", "--set", "router.n_limited_groups=1", "--set",
                       "router.fault_group_mask=zero", "--out", path("z.moescope")}))
                .status,
            0);
  expect_refused(export_run("z.moescope", {"--overwrite"}), "router.fault_group_mask", content());
}

}  // namespace
}  // namespace moescope
