// Events outside of the program during a training: a closed terminal, a full disk, removed files, other kernels.
#include <sched.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <cstdlib>

#include "core/numerics/processor.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "core/training/trainer.h"
#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

class CliAccidents : public Cli {
 protected:
  // Returns a function that limits the size of files that the process writes, which has the effect of a full disk.
  static std::function<void()> at_most(rlim_t bytes) {
    return [bytes] {
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
    };
  }
  static std::function<void()> with_kernels(const char* core) {
    return [core] {
      setenv("OPENBLAS_CORETYPE", core, 1);
      for (const char* restart_variable : {"MOESCOPE_RESTARTED_FROM", "MOESCOPE_RESTARTED_FOR"})
        unsetenv(restart_variable);
    };
  }
  static void with_any_kernels() {
    for (const char* name : {"OPENBLAS_CORETYPE", "MOESCOPE_RESTARTED_FROM", "MOESCOPE_RESTARTED_FOR"}) unsetenv(name);
  }
  static void to_full_disk() { dup2(open("/dev/full", O_WRONLY), 1); }

  void sql(const std::string& recording, const std::string& statement) const {
    sqlite3* file = nullptr;
    ASSERT_EQ(sqlite3_open(path(recording).c_str(), &file), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(file, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(file);
    sqlite3_close(file);
  }
};

TEST_F(CliAccidents, AProcessOnOneProcessorStartsOneThread) {
  const pid_t pid = start(train({"--steps", "1000000", "--jsonl", path("j")}), [] {
    unsetenv("OMP_NUM_THREADS");
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
  });
  ASSERT_GE(wait_for_lines("j", 2), 2);
  int busy = 0;  // threads with at least a tenth of a second of CPU time
  for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(thread.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    std::string field;
    long ticks = 0;
    for (int i = 0; i < 12 && fields >> field; ++i) ticks = i == 11 ? std::stol(field) : 0;
    busy += ticks >= sysconf(_SC_CLK_TCK) / 10;
  }
  kill(pid, SIGTERM);
  finish(pid);
  EXPECT_LE(busy, 1);
}

TEST_F(CliAccidents, ATrainingHasTheThreadsThatOpenMpIsAskedFor) {
  const Result result = run(train({"--steps", "1"}), [] { setenv("OMP_NUM_THREADS", "3", 1); });
  EXPECT_NE(result.out.find("3 threads"), std::string::npos) << result.out << result.err;
}

TEST_F(CliAccidents, OpenMpIsAskedForNoMoreThreadsThanTheOptionAllows) {
  for (const char* thread_text : {"99999", "99999,2"}) {
    const Result result = run({"predict", "--help"}, [thread_text] { setenv("OMP_NUM_THREADS", thread_text, 1); });
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("OMP_NUM_THREADS is 99999: 1024 threads are used, the most that are allowed"),
              std::string::npos)
        << result.err;
  }
  const Result limited = run(train({"--steps", "1"}), [] {
    setenv("OMP_NUM_THREADS", "99999", 1);
    setenv("OMP_THREAD_LIMIT", "2", 1);
  });
  EXPECT_EQ(limited.status, 0) << limited.err;
  EXPECT_NE(limited.out.find("2 threads"), std::string::npos) << limited.out;
}

TEST_F(CliAccidents, AClosedTerminalEndsTheTrainingWithItsCheckpoint) {
  const pid_t pid =
      start(train({"--steps", "1000000", "--out", path("r"), "--jsonl", path("j"), "--checkpoint", path("c")}));
  ASSERT_GE(wait_for_lines("j", 5), 5);
  for (int attempt = 0; attempt < 3; ++attempt)
    kill(pid, SIGHUP);  // the terminal and the shell send one each; one more
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 128 + SIGHUP) << result.err;
  EXPECT_NE(result.out.find("Stopped by SIGHUP"), std::string::npos) << result.out;
  const std::size_t steps = steps_of(read("j")).size();
  EXPECT_TRUE(fs::exists(path("c/" + std::to_string(steps) + "/n.safetensors")));
  EXPECT_EQ(run({"train", "--resume", path("c"), "--steps", std::to_string(steps + 2)}).status, 0);
}

TEST_F(CliAccidents, NohupGoesOn) {
  const pid_t pid = start(train({"--steps", "40", "--jsonl", path("j")}), [] { signal(SIGHUP, SIG_IGN); });
  ASSERT_GE(wait_for_lines("j", 3), 3);
  kill(pid, SIGHUP);
  EXPECT_EQ(finish(pid).status, 0);
  EXPECT_EQ(steps_of(read("j")).size(), 40u);
}

TEST_F(CliAccidents, AFullDiskEndsTheRecordingNotTheTraining) {
  const Result result =
      run(train({"--steps", "120", "--out", path("r"), "--checkpoint", path("c")}), at_most(1'000'000));
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_EQ(count(result.err, "recording stopped: " + path("r")), 1u) << result.err;
  EXPECT_EQ(count(result.err, "File too large"), 1u) << result.err;
  EXPECT_NE(result.out.find("steps: 120"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(path("r") + ", not to the end"), std::string::npos) << result.out;
  EXPECT_TRUE(fs::exists(path("c/120/n.safetensors")));
  const auto history = RecordingReader(path("r")).load(0);
  EXPECT_EQ(history->steps().first, 0);
  EXPECT_GT(history->steps().last, 5);
  EXPECT_LT(history->steps().last, 119);
}

TEST_F(CliAccidents, AFullDiskEndsTheJsonLinesNotTheTraining) {
  const Result limited = run(train({"--steps", "60", "--jsonl", path("j")}), at_most(20'000));
  EXPECT_EQ(limited.status, 1);
  EXPECT_EQ(count(limited.err, "--jsonl " + path("j") + ": cannot be written: File too large"), 1u) << limited.err;
  EXPECT_NE(limited.out.find("steps: 60"), std::string::npos) << limited.out;

  for (const std::string& lines : {std::string("/dev/full"), std::string("-")}) {
    const Result full =
        run(train({"--steps", "6", "--jsonl", lines}), lines == "-" ? to_full_disk : std::function<void()>());
    EXPECT_EQ(full.status, 1) << lines;
    EXPECT_EQ(count(full.err, "--jsonl " + lines + ": cannot be written: No space left on device"), 1u) << full.err;
    EXPECT_NE((full.out + full.err).find("steps: 6"), std::string::npos) << full.out << full.err;
  }
}

TEST_F(CliAccidents, AReaderThatGoesAwayLeavesTheCheckpoint) {
  const std::string command = std::string(MOESCOPE_CLI) + " train --config " + path("nano.toml") +
                              " --steps 100000 --jsonl - --checkpoint " + path("c") + " 2>" + path("err") +
                              " | head -n 4 > " + path("lines");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_NE(read("err").find("--jsonl -: cannot be written: Broken pipe"), std::string::npos) << read("err");
  EXPECT_EQ(checkpoint_steps(path("c")).size(), 1u);
}

TEST_F(CliAccidents, ACheckpointThatFindsNoRoomIsSaidOnceAndTriedAgain) {
  const Result result = run(train({"--steps", "12", "--checkpoint", path("c"), "--every", "3"}), at_most(60'000));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count(result.err, "could not be written"), 1u) << result.err;
  EXPECT_NE(result.err.find(path("c/3")), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("steps: 12"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("checkpoint: none could be written"), std::string::npos) << result.out;
  EXPECT_FALSE(fs::exists(path("c")));
}

TEST_F(CliAccidents, ARemovedRecordingIsSaidAndAnotherOfItsNameIsLeftAlone) {
  const pid_t pid = start(train({"--steps", "400", "--out", path("r"), "--jsonl", path("j")}));
  ASSERT_GE(wait_for_lines("j", 5), 5);
  for (const char* name : {"r", "r-wal", "r-shm"}) fs::remove(path(name));
  write("r", "another");
  write("r-wal", "its log");
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count(result.err, path("r") + ": was removed or moved while it was written"), 1u) << result.err;
  EXPECT_NE(result.out.find("steps: 400"), std::string::npos) << result.out;
  EXPECT_EQ(read("r"), "another");
  EXPECT_EQ(read("r-wal"), "its log");
}

TEST_F(CliAccidents, AMovedRecordingIsWholeUpToThere) {
  const pid_t pid = start(train({"--steps", "400", "--out", path("r"), "--jsonl", path("j")}));
  ASSERT_GE(wait_for_lines("j", 20), 20);
  fs::rename(path("r"), path("moved"));
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count(result.err, "was removed or moved"), 1u) << result.err;
  EXPECT_GE(RecordingReader(path("moved")).load(0)->steps().last, 18);
}

TEST_F(CliAccidents, ARemovedLogOfARecordingIsSaid) {
  const pid_t pid = start(train({"--steps", "400", "--out", path("r"), "--jsonl", path("j")}));
  ASSERT_GE(wait_for_lines("j", 20), 20);
  fs::remove(path("r-wal"));
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count(result.err, path("r-wal") + ": was removed while it was written"), 1u) << result.err;
  EXPECT_GE(RecordingReader(path("r")).load(0)->steps().last, 18);
}

TEST_F(CliAccidents, RemovedJsonLinesAreSaid) {
  const pid_t pid = start(train({"--steps", "400", "--jsonl", path("j")}));
  ASSERT_GE(wait_for_lines("j", 5), 5);
  fs::remove(path("j"));
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count(result.err, path("j") + ": was removed or moved"), 1u) << result.err;
  EXPECT_NE(result.out.find("steps: 400"), std::string::npos);
}

TEST_F(CliAccidents, ARemovedCheckpointFolderIsSaidAndMadeAnew) {
  const pid_t pid = start(train({"--steps", "400", "--jsonl", path("j"), "--checkpoint", path("c"), "--every", "10"}));
  ASSERT_GE(wait_for_lines("j", 20), 20);
  fs::rename(path("c"), path("elsewhere"));
  const Result result = finish(pid);
  EXPECT_EQ(count(result.err, "was removed or moved while training"), 1u) << result.err;
  EXPECT_TRUE(fs::exists(path("c/400/n.safetensors")));
  EXPECT_FALSE(fs::exists(path("c/10")));
}

// A checkpoint begins by removing its unfinished folder. With many files in it, there is time to remove the folder of
// all checkpoints before this checkpoint creates it again.
TEST_F(CliAccidents, ACheckpointFolderRemovedDuringACheckpointIsSaid) {
  const fs::path unfinished = path("c/20.partial");
  fs::create_directories(unfinished);
  for (int i = 0; i < 20000; ++i) std::ofstream(unfinished / (std::to_string(i) + ".safetensors"));
  const pid_t pid = start(train({"--steps", "30", "--jsonl", path("j"), "--checkpoint", path("c"), "--every", "10"}));
  for (int i = 0; i < 3000 && fs::exists(unfinished / "0.safetensors") && fs::exists(unfinished / "19999.safetensors");
       ++i)
    std::this_thread::sleep_for(1ms);
  fs::rename(path("c"), path("elsewhere"));
  const Result result = finish(pid);
  EXPECT_EQ(count(result.err, "was removed or moved while training"), 1u) << result.err;
  EXPECT_TRUE(fs::exists(path("c/20/n.safetensors")));
  EXPECT_FALSE(fs::exists(path("c/10")));
}

TEST_F(CliAccidents, StandardOutputOnAFullDiskIsAnErrorOfEveryCommand) {
  ASSERT_EQ(
      run(train({"--steps", "3", "--out", path("r.moescope"), "--jsonl", path("j.jsonl"), "--checkpoint", path("c")}))
          .status,
      0);
  const std::vector<std::vector<std::string>> calls = {
      {"--help"},
      {"--version"},
      {"train", "--help"},
      train({"--steps", "2"}),
      {"lesson", "--list"},
      {"reproduce", path("r.moescope")},
      {"import", path("j.jsonl"), "-o", path("imported.moescope")},
      {"export", path("c/3/n.safetensors"), "--to", "safetensors", "-o", path("weights.safetensors")},
      {"quantize", path("c/3/n.safetensors"), "--format", "mxfp8_e4m3"},
      {"volumes", "--help"},
      {"predict"},
  };
  for (const auto& call : calls) {
    const Result result = run(call, to_full_disk);
    EXPECT_EQ(result.status, 1) << call.front() << result.err;
    EXPECT_NE(result.err.find("standard output: cannot be written: No space left on device"), std::string::npos)
        << call.front() << '\n'
        << result.err;
  }
}

TEST_F(CliAccidents, ImportSaysHowItEnded) {
  ASSERT_EQ(run(train({"--steps", "40", "--jsonl", path("j.jsonl")})).status, 0);
  const Result full = run({"import", path("j.jsonl"), "-o", path("i.moescope")}, at_most(100'000));
  EXPECT_EQ(full.status, 1) << full.err;
  EXPECT_NE(full.err.find("i.moescope: cannot be written"), std::string::npos) << full.err;
  EXPECT_EQ(files(), (std::vector<std::string>{"j.jsonl", "nano.toml"}));
  EXPECT_EQ(run({"import", path("none"), "-o", path("i.moescope")}).status, 2);
  std::string long_log;
  for (int i = 0; i < 120; ++i) long_log += read("j.jsonl");
  write("many.jsonl", long_log);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t pid = start({"import", path("many.jsonl"), "-o", path("i.moescope")});
    // Waits for the temporary file of the import.
    for (int i = 0; i < 3000 && files().size() < 6; ++i) std::this_thread::sleep_for(1ms);
    kill(pid, signal);
    EXPECT_EQ(finish(pid).status, 128 + signal);
    EXPECT_EQ(files(), (std::vector<std::string>{"j.jsonl", "many.jsonl", "nano.toml"}));
  }
}

TEST_F(CliAccidents, ReproduceNamesTheFilesThatItReadsBeforeItReadsThem) {
  write("text.txt", std::string(4000, 'a'));
  ASSERT_EQ(run(train({"--steps", "3", "--data", path("text.txt"), "--out", path("r")})).status, 0);
  const std::string reads = "n: reads data.path: " + path("text.txt") + '\n';
  const Result reproduction = run({"reproduce", path("r")});
  EXPECT_EQ(reproduction.status, 0) << reproduction.err;
  EXPECT_LT(reproduction.out.find(reads), reproduction.out.find("training 3 steps again")) << reproduction.out;
  fs::remove(path("text.txt"));
  const Result without = run({"reproduce", path("r")});
  EXPECT_NE(without.status, 0);
  EXPECT_NE(without.out.find(reads), std::string::npos) << without.out;
}

// Tests the exit statuses that --help lists, except those after a full disk and signals, which other tests cover.
TEST_F(CliAccidents, ExitStatusesAreThoseOfTheHelp) {
  for (const char* command : {"train", "import", "reproduce", "lesson"})
    EXPECT_NE(run({command, "--help"}).out.find("Exit status: 0 "), std::string::npos) << command;
  EXPECT_NE(run({"train", "--help"}).out.find("130 Ctrl-C"), std::string::npos);
  EXPECT_NE(run({"import", "--help"}).out.find("130 Ctrl-C"), std::string::npos);

  EXPECT_EQ(run(train({"--steps", "3", "--out", path("r")})).status, 0);
  const Result lost = run(train({"--steps", "400", "--set", "optimizer.lr=1", "--set", "optimizer.weight_decay=10",
                                 "--set", "optimizer.schedule=constant", "--checkpoint", path("c")}));
  EXPECT_EQ(lost.status, 1) << lost.out;
  EXPECT_NE(lost.out.find("the loss is NaN or infinite"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("c"))) << "nothing to go on from";
  EXPECT_EQ(run(train({"--steps", "x"})).status, 2);

  EXPECT_EQ(run({"reproduce", path("r")}).status, 0);
  EXPECT_EQ(run({"reproduce", path("none")}).status, 2);
  sql("r", "UPDATE frame SET ce_loss = 2 * ce_loss WHERE step = 1");
  const Result differs = run({"reproduce", path("r")});
  EXPECT_EQ(differs.status, 1);
  EXPECT_NE(differs.out.find("differ from step 1 on"), std::string::npos) << differs.out;

  const auto lesson = [&](const std::string& bound) {
    write("l.toml",
          "title = 'T'\nteaches = 't'\n[runs]\npreset = 'nano'\n[[step]]\ntitle = 's'\ntext = 'x'\n"
          "[[step.do]]\nrun_until = 3\n[[step.check]]\ntext = 'c'\nfigure = 'ce_loss'\nlast = 1\n" +
              bound + "\n");
    return run({"lesson", path("l.toml"), "--quiet"});
  };
  EXPECT_EQ(lesson("below = 100").status, 0) << lesson("below = 100").err;
  EXPECT_EQ(lesson("above = 100").status, 1);
  EXPECT_EQ(lesson("beyond = 100").status, 2);
  EXPECT_EQ(run({"lesson", "none-of-this-name"}).status, 2);
}

#if defined(__x86_64__)

TEST_F(CliAccidents, ARecordingIsReproducedWithItsOwnKernels) {
  ASSERT_EQ(run(train({"--steps", "6", "--out", path("r")}), with_kernels("Prescott")).status, 0);
  const std::string kernels = RecordingReader(path("r")).runs().at(0).kernels;
  ASSERT_NE(kernels.find(" Prescott, "), std::string::npos) << kernels;
  const Result reproduced = run({"reproduce", path("r")}, with_any_kernels);
  EXPECT_EQ(reproduced.status, 0) << reproduced.out << reproduced.err;
  EXPECT_NE(reproduced.out.find("by the kernels that are here, too: " + kernels), std::string::npos) << reproduced.out;

  // Kernels that the user has set are kept, and their name is printed before the run.
  const Result with_nehalem = run({"reproduce", path("r")}, with_kernels("Nehalem"));
  for (const char* words : {"Computed by ", " Prescott, ", " Nehalem, ", "OPENBLAS_CORETYPE=Nehalem is kept"})
    EXPECT_NE(with_nehalem.out.find(words), std::string::npos) << words << '\n' << with_nehalem.out;
  EXPECT_LT(with_nehalem.out.find(" Nehalem, "), with_nehalem.out.find("training 6 steps again"));
}

TEST_F(CliAccidents, KernelsThatCannotRunHereAreNamedBeforeTheRun) {
  ASSERT_EQ(run(train({"--steps", "3", "--out", path("r")})).status, 0);
  sql("r", "UPDATE run SET kernels = 'OpenBLAS 0.3.99 Zen9, 16-lane-tiled loops, no matrix units'");
  const Result other = run({"reproduce", path("r")});
  EXPECT_EQ(other.status, 0) << "they are the same after all";
  EXPECT_NE(other.out.find("Computed by OpenBLAS 0.3.99 Zen9, 16-lane-tiled loops, no matrix units; here are"),
            std::string::npos);
  EXPECT_NE(other.out.find("cannot run OpenBLAS's Zen9 kernels"), std::string::npos) << other.out;
  EXPECT_LT(other.out.find("Zen9"), other.out.find("training 3 steps again"));
}

TEST_F(CliAccidents, ARecordingWithoutKernelsSaysThatTheyAreNotRecorded) {
  ASSERT_EQ(run(train({"--steps", "3", "--out", path("r")})).status, 0);
  sql("r", "UPDATE run SET kernels = ''");
  const Result old = run({"reproduce", path("r")});
  EXPECT_EQ(old.status, 0) << old.err;
  EXPECT_NE(old.out.find("is not recorded"), std::string::npos) << old.out;
}

TEST_F(CliAccidents, ATrainingGoesOnWithTheKernelsOfItsCheckpoint) {
  const auto whole =
      steps_of(run(train({"--steps", "9", "--jsonl", "-", "--checkpoint", path("w")}), with_kernels("Prescott")).out);
  ASSERT_EQ(run(train({"--steps", "4", "--checkpoint", path("c")}), with_kernels("Prescott")).status, 0);
  EXPECT_NE(checkpoint_kernels(path("c/4/n.safetensors")).find(" Prescott, "), std::string::npos);
  const Result resumed = run(
      {"train", "--resume", path("c"), "--checkpoint", path("c"), "--steps", "9", "--jsonl", "-"}, with_any_kernels);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(steps_of(resumed.out), std::vector<std::string>(whole.begin() + 4, whole.end()));
  EXPECT_EQ(read("c/9/n.safetensors"), read("w/9/n.safetensors"));
  EXPECT_EQ(resumed.err.find("kernels: "), std::string::npos) << "nothing to say\n" << resumed.err;

  const Result other = run({"train", "--resume", path("w"), "--steps", "11"}, with_kernels("Nehalem"));
  EXPECT_EQ(other.status, 0);
  EXPECT_NE(other.out.find("kernels: Computed by OpenBLAS"), std::string::npos) << other.out;
  EXPECT_LT(other.out.find("Nehalem"), other.out.find("step 10/11"));
}

#endif

}  // namespace
}  // namespace moescope
