// Runs the moescope-cli binary as a user does.
#include <random>

#include "core/config/config_toml.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/recording/recording.h"
#include "core/training/engine/run_queue.h"
#include "tests/support/cli_fixture.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

TEST_F(Cli, HelpAndVersion) {
  const Result version = run({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out.rfind("moescope-cli 0.", 0), 0u) << version.out;
  const Result help = run({"train", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* word : {"--preset", "--config", "--data", "--steps", "--seed", "--threads", "--precision", "--out",
                           "--jsonl", "--checkpoint", "--every", "--resume", "Examples:"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
}

struct WrongCall {
  std::vector<std::string> arguments;
  std::vector<std::string> expected_texts;  // texts that the error must contain
};

TEST_F(Cli, WrongInputIsStatus2AndLeavesNothing) {
  write("bad.toml", "[router]\ntop_k = 20\n[model]\nn_expert = 16\ndim = 'x'\n");
  write("syntax.toml", "a = = 1\n");
  write("short.txt", "abc");
  fs::create_directories(path("empty"));
  write("kept", "do not touch");
  const auto before = files();
  const std::vector<WrongCall> calls = {
      {{}, {"subcommand"}},
      {{"fly"}, {"fly: no such command; allowed: train"}},
      {{"train", "--fly"}, {"--fly"}},
      {{"train", "--steps", "many"}, {"--steps", "many"}},
      {{"train", "--threads", "0"}, {"--threads", "1 to 1024"}},
      {{"train", "--preset", "huge"},
       {"preset", "huge", "nano, nano-facts, long-context, small, small-fp32, mini-v3, 16B-like"}},
      {{"train", "--preset", "nano", "--config", "x"}, {"--preset", "--config"}},
      {{"train", "--config", path("none.toml")}, {"none.toml", "no such file"}},
      {{"train", "--config", path("syntax.toml")}, {"syntax.toml:1: not TOML"}},
      {{"train", "--config", path("bad.toml"), "--out", path("r.moescope"), "--jsonl", path("j")},
       {"bad.toml:2: router.top_k: top_k is 20, but there are 16 experts",
        "bad.toml:4: model.n_expert: no such key, did you mean model.n_experts?",
        "bad.toml:5: model.dim: is \"x\"; allowed: a whole number, 8 to 8192"}},
      {{"train", "--set", "router.topk=3"}, {"--set router.topk=3", "did you mean router.top_k?"}},
      {{"train", "--set", "router.top_k"}, {"KEY=VALUE"}},
      {{"train", "--set", "router.top_k=x", "--precision", "fp7"},
       {"router.top_k is \"x\"", "--precision fp7", "mxfp8_rceil"}},
      {{"train", "--set", "router.top_k=40"}, {"top_k is 40, but there are 16 experts: choose 1 to 16"}},
      {{"train", "--seed", "-1"}, {"--seed -1", "0 to"}},
      {{"train", "--data", path("nowhere"), "--out", path("r.moescope")},
       {"nowhere", "expected a text file or a folder"}},
      {{"train", "--data", path("short.txt")}, {"short.txt", "at least 129 bytes"}},
      {{"train", "--data", path("empty")}, {"empty", "holds no text"}},
      {{"train", "--out", path("kept")}, {"kept", "exists", "--overwrite"}},
      {{"train", "--out", path("empty")}, {"is a folder"}},
      {{"train", "--out", path("no/where.moescope")}, {"--out", "No such file or directory"}},
      {{"train", "--out", path("kept"), "--overwrite"}, {"kept"}},  // not a recording
      {{"train", "--jsonl", path("no/where")}, {"--jsonl", "No such file or directory"}},
      {{"train", "--checkpoint", path("kept")}, {"kept", "expected a folder"}},
      {{"train", "--every", "3"}, {"--every 3", "--checkpoint"}},
      {{"train", "--resume", path("empty")}, {"empty", "holds no checkpoint"}},
      {{"train", "--resume", path("nowhere")}, {"nowhere", "holds no checkpoint"}},
      {{"train", "--out", ""}, {"--out", "is empty"}},
      {{"lesson", "--grade", ""}, {"--grade", "is empty"}},  // an unset variable of a script
      {{"check", path("kept"), "--junit", ""}, {"--junit", "is empty; give a value"}},
      {{"check", path("kept"), "--against", path("kept"), ""}, {"--against", "is empty"}},
      {{"check", ""}, {"RUN", "is empty"}},
      {{"check", path("kept"), "--follow", "--idle", "nan"}, {"--idle", "nan is not in range 0 to 1000000000"}},
      {{"lesson", "--grade", path("empty"), "--form", "1", "--student", "ada"}, {"--grade cannot be used with --form"}},
      {{"lesson", "bias-thermostat", "--grade", path("empty")}, {"--grade cannot be used with NAME"}},
      {{"lesson", "--grade", path("empty"), "-o", path("marks"), "--seed", "1"}, {"--seed needs NAME"}},
      {{"lesson", "--hand-in", path("kept"), "-o", path("h"), "--student", "ada"}, {"--student needs --form"}},
      {{"lesson", "bias-thermostat", "-o", path("h")}, {"--out needs --form, --hand-in or --grade"}},
      {{"export", path("kept"), "--to", "jsonl", "-o", path("h"), "--run", "a"}, {"--run needs --to with one of"}},
      {{"export", path("kept"), "--to", "recipe", "-o", path("h"), "--size", "9x9"}, {"--size needs", "png, svg"}},
      {{"export", path("kept"), "--to", "html", "-o", path("h"), "--with", path("kept")}, {"--with needs", "recipe"}},
  };
  for (const WrongCall& call : calls) {
    std::string shown;
    for (const std::string& argument : call.arguments) shown += argument + ' ';
    const Result result = run(call.arguments);
    EXPECT_EQ(result.status, 2) << shown << result.err;
    EXPECT_EQ(result.out, "") << shown;
    for (const std::string& text : call.expected_texts)
      EXPECT_NE(result.err.find(text), std::string::npos) << shown << '\n' << result.err;
    EXPECT_EQ(files(), before) << shown;
  }
  EXPECT_EQ(read("kept"), "do not touch");
}

TEST_F(Cli, TruncatedCheckpointIsRefused) {
  ASSERT_EQ(run(train({"--steps", "2", "--checkpoint", path("c")})).status, 0);
  const std::string file = path("c/2/n.safetensors");
  fs::resize_file(file, fs::file_size(file) / 2);
  const Result result = run({"train", "--resume", path("c"), "--steps", "4"});
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.err.find("n.safetensors"), std::string::npos) << result.err;
}

TEST_F(Cli, WritesRecordingAndJsonLines) {
  const Result result = run(train({"--steps", "12", "--out", path("r.moescope"), "--jsonl", path("j")}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* word : {"step 1/12", "step 12/12", "tokens/s", "final loss", "MaxVio",
                           "health: Too early to tell: 12 of about 150 steps", "r.moescope"})
    EXPECT_NE(result.out.find(word), std::string::npos) << word << '\n' << result.out;
  EXPECT_EQ(result.out.find('\r'), std::string::npos) << "plain lines when it is no terminal";
  const auto steps = steps_of(read("j"));
  ASSERT_EQ(steps.size(), 12u);
  auto recording = std::make_unique<RecordingReader>(path("r.moescope"));
  const auto history = recording->load(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 11}));
  for (int step = 0; step < 12; ++step) {
    const auto json = nlohmann::json::parse(steps[static_cast<std::size_t>(step)]);
    EXPECT_EQ(json.at("step"), step);
    EXPECT_EQ(json.at("tokens"), (step + 1) * 32);
    EXPECT_FLOAT_EQ(json.at("ce_loss").get<float>(), history->value_at(Metric::ce_loss, kWholeRun, step));
    std::uint32_t slots = 0;
    for (const auto& n : json.at("routers").at(0).at("tokens_per_expert")) slots += n.get<std::uint32_t>();
    EXPECT_EQ(slots, 64u);
  }
  const auto config = parse_config(recording->runs().at(0).config_toml, "recorded");
  EXPECT_TRUE(config.problems.empty());
  EXPECT_EQ(config.config.model.dim, 32);
  recording.reset();  // closes the recording, because the program does not replace an open one
  EXPECT_EQ(run(train({"--steps", "3", "--out", path("r.moescope"), "--overwrite"})).status, 0);
  EXPECT_EQ(RecordingReader(path("r.moescope")).load(0)->steps(), (StepRange{0, 2}));
}

TEST_F(Cli, ComparesRunsInLockStep) {
  const Result result =
      run(train({"--steps", "60", "--compare", "precision.experts=bf16", "--compare",
                 "optimizer.lr=1e-3,router.top_k=1", "--noise-twin", "--epsilon", "0.5", "--out", path("r.moescope")}));
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* word :
       {"in lock-step with n+bf16", "n+top_k-1+lr-0.001 ", "n+seed-2 ", "noise twin", "precision.experts = bf16",
        "router.top_k = 1, optimizer.lr = 0.001", "n+bf16 against n: ", "counts as a difference that matters"})
    EXPECT_NE(result.out.find(word), std::string::npos) << word << '\n' << result.out;
  EXPECT_NE(result.out.find("SQNR"), std::string::npos) << "BF16 rounds its operands, which is measured\n"
                                                        << result.out;
  EXPECT_EQ(result.out.find("n+seed-2 against"), std::string::npos) << "the measure is not measured";
  const RecordingReader recording(path("r.moescope"));
  ASSERT_EQ(recording.runs().size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(recording.load(i)->steps(), (StepRange{0, 59}));
  EXPECT_EQ(recording.load(0)->flip_frame_at(50), nullptr);
  EXPECT_EQ(recording.load(1)->flip_frame_at(50)->step, 50);

  const Result exported = run({"export", path("r.moescope"), "--to", "replay", "-o", path("r.html")});
  EXPECT_EQ(exported.status, 0) << exported.err;
  EXPECT_NE(exported.out.find("4 runs"), std::string::npos) << exported.out;
  const std::string page = read("r.html");
  EXPECT_NE(page.find("n+bf16 against n: "), std::string::npos);
  EXPECT_NE(page.find("n+seed-2 is a noise twin of n: they differ by chance alone"), std::string::npos);
  EXPECT_EQ(page.find("whether that is more than chance"), std::string::npos)
      << "the twin's settings tell that it is one";

  ASSERT_EQ(run({"export", path("r.moescope"), "--to", "html", "-o", path("report.html")}).status, 0);
  const std::string report = read("report.html");
  for (const std::string& judged : {result.out, page, report})
    EXPECT_NE(judged.find("the interval allows for the 2 candidates that are compared with one run"), std::string::npos)
        << "the noise twin is no candidate";
  // The report has the SQNR of the operands in which the runs differ, as `train` prints it.
  const std::vector<OperandSqnr> sqnr = operand_sqnr(
      std::vector<HistoryPtr>{recording.load(0), recording.load(1), recording.load(2), recording.load(3)}, 59);
  for (const float db : {sqnr[1].worst_db, sqnr[1].mean_db}) {
    char cell[32];
    std::snprintf(cell, sizeof cell, "<td>%.1f</td>", db);
    EXPECT_NE(report.find(cell), std::string::npos) << cell;
  }
}

TEST_F(Cli, ComparesWithTheModelWithoutExperts) {
  const Result result = run(train({"--steps", "20", "--dense-twin", "active", "--dense-twin", "total",
                                   "--perturbed-twin", "--out", path("d.moescope")}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* word :
       {"n+dense-active ", "n+dense-total ", "model.n_dense_layers = ", "All layers of this run are dense"})
    EXPECT_NE(result.out.find(word), std::string::npos) << word << '\n' << result.out;
  const RecordingReader recording(path("d.moescope"));
  EXPECT_FALSE(recording.load(0)->info().moe_layers.empty());
  for (const int dense : {1, 2}) {
    EXPECT_TRUE(recording.load(dense)->info().moe_layers.empty());
    EXPECT_LT(recording.load(dense)->value_at(Metric::ce_loss, kWholeRun, 19),
              recording.load(dense)->value_at(Metric::ce_loss, kWholeRun, 0));
  }
  for (const char* form : {"html", "replay"})
    EXPECT_EQ(run({"export", path("d.moescope"), "--to", form, "-o", path("d.") + form}).status, 0) << form;
}

TEST_F(Cli, SaysThatARecordingIsWithoutItsLog) {
  RecordingWriter writer(path("whole.moescope"));
  writer.add_run(sample_info({}));
  std::mt19937 rng(1);
  writer.write(std::vector{std::make_shared<const TelemetryFrame>(sample_frame(0, {}, rng))});
  fs::copy_file(path("whole.moescope"), path("alone.moescope"));  // like the file of a killed program
  const std::string words = path("alone.moescope-wal") + ", is not here. The recording ends with step 0";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"export", path("alone.moescope"), "--to", "jsonl", "-o", path("x.jsonl")},
        {"volumes", "--routing", path("alone.moescope")},
        {"reproduce", path("alone.moescope"), "--steps", "1"}}) {
    const Result result = run(command);
    EXPECT_NE(result.err.find(words), std::string::npos) << command[0] << ": " << result.err;
  }
}

TEST_F(Cli, RefusesComparisonsThatCannotBe) {
  const std::vector<WrongCall> calls = {
      {{"--compare", "router.topk=1"}, {"--compare router.topk=1", "did you mean router.top_k?"}},
      {{"--compare", "router.top_k"}, {"KEY=VALUE"}},
      {{"--compare", "router.top_k=9"}, {"router.top_k"}},
      {{"--compare", "data.seq=32"}, {"differ in [data]", "data.seq"}},
      {{"--compare", "router.top_k=2"}, {"is the run's value already"}},
      {{"--compare", "seed=2", "--noise-twin"}, {"twice"}},
      {{"--table", path("t.csv")}, {"--table", "needs --compare"}},
      {{"--compare", "seed=2", "--table", path("t.txt")}, {"t.txt", ".csv or .json"}},
      {{"--compare", "seed=2", "--out", path("r.moescope"), "--continue"}, {"--continue", "more than four twins"}},
  };
  for (const WrongCall& call : calls) {
    std::vector<std::string> arguments{"--steps", "2"};
    arguments.insert(arguments.end(), call.arguments.begin(), call.arguments.end());
    const Result result = run(train(arguments));
    EXPECT_EQ(result.status, 2);
    for (const std::string& part : call.expected_texts)
      EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

std::vector<std::string> five_twins(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--steps", "60"};
  for (const char* twin :
       {"precision.experts=bf16", "router.top_k=1", "perturbation=1", "precision.experts=mxfp4", "optimizer.lr=1e-3"})
    arguments.insert(arguments.end(), {"--compare", twin});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(Cli, TrainsCandidatesInGroupsAndContinues) {
  const Result whole = run(train(five_twins({"--out", path("many.moescope"), "--table", path("many.json")})));
  ASSERT_EQ(whole.status, 0) << whole.err;
  for (const char* word : {"group 1 of 2, step 60/60", "group 2 of 2, step 60/60", "n+lr-0.001", "noise twin",
                           "trained run A to the same bits", "many-2.moescope"})
    EXPECT_NE(whole.out.find(word), std::string::npos) << word << '\n' << whole.out;
  const auto table = nlohmann::json::parse(read("many.json"));
  ASSERT_EQ(table.size(), 6u);
  EXPECT_EQ(table[0].at("verdict"), "run A");
  for (std::size_t i = 2; i < table.size(); ++i)
    EXPECT_LE(table[i - 1].value("loss_gap_nats", -1e9), table[i].at("loss_gap_nats").get<double>()) << "sorted";
  for (const auto& row : table) {
    if (row.at("candidate") != "n+mxfp4") continue;
    EXPECT_EQ(row.at("verdict"), "too early to tell") << row;  // a perturbed run has not drifted yet
    EXPECT_TRUE(row.at("interval_half_width_nats").is_null()) << row;
    EXPECT_GT(row.at("more_steps_for_a_verdict").get<int>(), 0) << row;
    EXPECT_NE(row.at("conclusion").get<std::string>().find("have not drifted apart yet"), std::string::npos) << row;
    EXPECT_EQ(row.at("judged_loss"), "training loss");
    EXPECT_LE(row.at("sqnr_worst_db").get<double>(), row.at("sqnr_mean_db").get<double>());
    EXPECT_NEAR(row.at("sqnr_mean_db").get<double>(), 18.5, 2.5) << "of operands in MXFP4 alone";
  }
  EXPECT_NE(whole.out.find("lowest SQNR, dB"), std::string::npos) << whole.out;

  // A candidate of the second group equals the same twin in a training without groups, bit by bit.
  ASSERT_EQ(run(train({"--steps", "60", "--compare", "optimizer.lr=1e-3", "--out", path("direct.moescope")})).status,
            0);
  const StepRange steps{0, 59};
  const auto direct = RecordingReader(path("direct.moescope")).load(1);
  const auto grouped = RecordingReader(path("many-2.moescope")).load(2);
  ASSERT_EQ(grouped->info().name, "n+lr-0.001");
  EXPECT_EQ(grouped->values(Metric::ce_loss, kWholeRun, steps), direct->values(Metric::ce_loss, kWholeRun, steps));

  // --continue keeps the first group and trains the removed second group again, with equal figures.
  fs::remove(path("many-2.moescope"));
  const auto before = fs::last_write_time(path("many-1.moescope"));
  const Result continued =
      run(train(five_twins({"--out", path("many.moescope"), "--table", path("many.json"), "--continue"})));
  ASSERT_EQ(continued.status, 0) << continued.err;
  EXPECT_NE(continued.out.find("group 1 of 2: finished before"), std::string::npos) << continued.out;
  EXPECT_EQ(fs::last_write_time(path("many-1.moescope")), before);
  const auto continued_table = nlohmann::json::parse(read("many.json"));
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(continued_table[i].at("candidate"), table[i].at("candidate"));
    EXPECT_EQ(continued_table[i].at("final_loss_nats"), table[i].at("final_loss_nats"));
  }

  const Result other = run(train(five_twins({"--out", path("many.moescope"), "--continue", "--seed", "7"})));
  EXPECT_EQ(other.status, 2);
  EXPECT_NE(other.err.find("to another comparison: in n seed is 1, not 7"), std::string::npos) << other.err;
  for (const char* option : {"--jsonl", "--checkpoint"}) {
    const Result refused = run(train(five_twins({option, path("x")})));
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.err.find("cannot be used with 6 runs"), std::string::npos) << refused.err;
  }
}

TEST_F(Cli, StopInALaterGroupKeepsTheEarlierOnes) {
  const std::vector<std::string> command =
      train(five_twins({"--out", path("many.moescope"), "--table", path("many.csv"), "--steps", "150"}));
  const pid_t pid = start(command);
  for (int i = 0; i < 6000 && read("stdout").find("group 2 of 2, step ") == std::string::npos; ++i)
    std::this_thread::sleep_for(5ms);
  kill(pid, SIGINT);
  const Result stopped = finish(pid);
  ASSERT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_NE(stopped.out.find("same command with --continue"), std::string::npos) << stopped.out;
  EXPECT_NE(read("many.csv").find(",2,waiting,"), std::string::npos) << read("many.csv");
  EXPECT_EQ(load_queue(path("many.queue")).finished, 1) << "the window goes on from it, too";
  std::vector<std::string> more = command;
  more.push_back("--continue");
  const Result continued = run(more);
  ASSERT_EQ(continued.status, 0) << continued.err;
  EXPECT_EQ(read("many.csv").find("waiting"), std::string::npos);
  EXPECT_EQ(RecordingReader(path("many-2.moescope")).load(2)->steps(), (StepRange{0, 149}));
}

TEST_F(Cli, JsonLinesOnStandardOutputLeaveProgressToStandardError) {
  const Result result = run(train({"--steps", "4", "--jsonl", "-"}));
  EXPECT_EQ(steps_of(result.out).size(), 4u);
  EXPECT_NE(result.err.find("step 4/4"), std::string::npos);
}

TEST_F(Cli, ThreadsDoNotChangeResults) {
  const std::vector<std::string> mx{"--steps", "8", "--precision", "mxfp8_rceil", "--jsonl", "-", "--threads"};
  auto one = mx, two = mx;
  one.push_back("1");
  two.push_back("2");
  const auto a = steps_of(run(train(one)).out), b = steps_of(run(train(two)).out);
  ASSERT_EQ(a.size(), 8u);
  EXPECT_EQ(a, b);
}

TEST_F(Cli, SetDataAndPrecisionReachTheTraining) {
  write("text.txt", std::string(2000, 'a'));
  const Result result = run(train({"--steps", "12", "--jsonl", "-", "--data", path("text.txt"), "--set",
                                   "router.top_k=3", "--set", "optimizer.lr=0.01", "--precision", "mxfp8_floor"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const auto last = nlohmann::json::parse(steps_of(result.out).at(11));
  EXPECT_LT(last.at("ce_loss").get<double>(), 2.0) << "one letter only";
  EXPECT_FALSE(last.at("quants").empty());
  std::uint32_t slots = 0;
  for (const auto& n : last.at("routers").at(0).at("tokens_per_expert")) slots += n.get<std::uint32_t>();
  EXPECT_EQ(slots, 96u);
}

TEST_F(Cli, ResumedEqualsUninterrupted) {
  const auto whole = steps_of(run(train({"--steps", "20", "--jsonl", "-", "--checkpoint", path("w")})).out);
  ASSERT_EQ(run(train({"--steps", "11", "--checkpoint", path("c"), "--every", "4"})).status, 0);
  EXPECT_TRUE(fs::exists(path("c/4/n.safetensors")) && fs::exists(path("c/8/n.safetensors")) &&
              fs::exists(path("c/11/n.safetensors")));
  const Result resumed_run =
      run({"train", "--resume", path("c"), "--checkpoint", path("c"), "--steps", "20", "--jsonl", "-"});
  ASSERT_EQ(resumed_run.status, 0) << resumed_run.err;
  const auto resumed = steps_of(resumed_run.out);
  ASSERT_EQ(whole.size(), 20u);
  EXPECT_EQ(resumed, std::vector<std::string>(whole.begin() + 11, whole.end()));
  EXPECT_EQ(read("c/20/n.safetensors"), read("w/20/n.safetensors")) << "weights, moments and all";
}

TEST_F(Cli, RunsInLockStepResumeTogetherTheFirstFirst) {
  ASSERT_EQ(run({"train", "--preset", "nano", "--set", "name=z", "--compare", "router.top_k=1", "--steps", "3",
                 "--checkpoint", path("c")})
                .status,
            0);
  const Result resumed_run = run({"train", "--resume", path("c"), "--steps", "5", "--jsonl", path("rest.jsonl")});
  ASSERT_EQ(resumed_run.status, 0) << resumed_run.err;
  EXPECT_NE(resumed_run.out.find("z: "), std::string::npos) << resumed_run.out;
  EXPECT_NE(resumed_run.out.find("in lock-step with z+top_k-1"), std::string::npos) << resumed_run.out;
  EXPECT_NE(resumed_run.out.find("tokens/s\nGEMMs: "), std::string::npos) << resumed_run.out;
}

TEST_F(Cli, ResumeRefusesWhatWouldChangeTheRun) {
  ASSERT_EQ(run(train({"--steps", "3", "--checkpoint", path("c")})).status, 0);
  const auto resume = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--resume", path("c"), "--steps", "4"});
    return run(more);
  };
  EXPECT_EQ(resume({"--seed", "1", "--config", path("nano.toml")}).status, 0) << "what the checkpoint says, too";
  const Result result = resume({"--seed", "7", "--precision", "bf16", "--set", "optimizer.lr=0.5"});
  EXPECT_EQ(result.status, 2);
  for (const char* text :
       {"--seed 7: conflicts with --resume: the checkpoint was trained with seed = 1",
        "--precision bf16: conflicts with --resume: the checkpoint was trained with precision.experts = fp32",
        "--set optimizer.lr=0.5: conflicts"})
    EXPECT_NE(result.err.find(text), std::string::npos) << result.err;
  const Result preset = resume({"--preset", "nano"});
  EXPECT_EQ(preset.status, 2);
  EXPECT_NE(preset.err.find("--preset nano: conflicts with --resume: the checkpoint was trained with model.dim = 32"),
            std::string::npos)
      << preset.err;
  const Result backwards = run({"train", "--resume", path("c"), "--steps", "2"});
  EXPECT_EQ(backwards.status, 2);
  EXPECT_NE(backwards.err.find("already taken 3 steps"), std::string::npos) << backwards.err;
  const Result mixed = run(train({"--steps", "9", "--checkpoint", path("c")}));
  EXPECT_EQ(mixed.status, 2);
  EXPECT_NE(mixed.err.find("holds checkpoints up to step 3"), std::string::npos) << mixed.err;
}

TEST_F(Cli, InterruptSavesEverything) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string number = std::to_string(signal);
    const pid_t pid = start(train({"--steps", "1000000", "--out", path("r" + number), "--jsonl", path("j" + number),
                                   "--checkpoint", path("c" + number)}));
    ASSERT_GE(wait_for_lines("j" + number, 10), 10);
    kill(pid, signal);
    const Result result = finish(pid);
    EXPECT_EQ(result.status, 128 + signal) << result.err;
    EXPECT_NE(result.out.find("Stopped by"), std::string::npos);
    const auto steps = steps_of(read("j" + number));
    const auto last = static_cast<std::int64_t>(steps.size()) - 1;
    EXPECT_EQ(RecordingReader(path("r" + number)).load(0)->steps(), (StepRange{0, last}));
    EXPECT_TRUE(fs::exists(path("c" + number + "/" + std::to_string(last + 1) + "/n.safetensors")));
    EXPECT_FALSE(fs::exists(path("r" + number + "-wal"))) << "closed";
  }
}

TEST_F(Cli, KilledRecordingOpensAndLacksAtMostTheStepInFlight) {
  for (int attempt = 0; attempt < 6; ++attempt) {
    const std::string recording = "r" + std::to_string(attempt), lines = "j" + std::to_string(attempt);
    const pid_t pid = start(train({"--steps", "1000000", "--out", path(recording), "--jsonl", path(lines)}));
    ASSERT_GE(wait_for_lines(lines, 3), 3);
    std::this_thread::sleep_for(std::chrono::microseconds(7919 * attempt));
    kill(pid, SIGKILL);
    EXPECT_EQ(finish(pid).status, 1000 + SIGKILL);
    std::string text = read(lines);
    text.resize(text.rfind('\n') + 1);  // the last line may be incomplete
    const auto reported = static_cast<std::int64_t>(steps_of(text).size()) - 1;
    const auto history = RecordingReader(path(recording)).load(0);
    EXPECT_EQ(history->steps().first, 0);
    EXPECT_GE(history->steps().last, reported - 1);
    for (std::int64_t step = 0; step <= history->steps().last; ++step)
      EXPECT_TRUE(std::isfinite(history->value_at(Metric::ce_loss, kWholeRun, step))) << step;
  }
}

TEST_F(Cli, ReaderThatGoesAwayEndsTheTrainingCleanly) {
  const std::string command = std::string(MOESCOPE_CLI) + " train --config " + path("nano.toml") +
                              " --steps 100000 --jsonl - --out " + path("r") + " 2>" + path("err") + " | head -n 4 > " +
                              path("three");  // the line that describes the run, and three steps
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(steps_of(read("three")).size(), 3u);
  EXPECT_NE(read("err").find("--jsonl -: cannot be written"), std::string::npos) << read("err");
  EXPECT_GE(RecordingReader(path("r")).load(0)->steps().last, 2);
}

}  // namespace
}  // namespace moescope
