#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/files/sqlite.h"
#include "core/files/text/text_escape.h"
#include "core/frame/frame.h"
#include "core/logs/log_exports.h"
#include "core/recording/frame_sink.h"
#include "core/recording/recording.h"
#include "core/recording/schema.h"
#include "tests/support/recording_file.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

std::string failure(const std::string& path) {
  try {
    RecordingReader reader(path);
    for (const RunInfo& info : reader.runs()) reader.load(info.run);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

void expect_failure(const std::string& path, const std::string& part) {
  const std::string message = failure(path);
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_NE(message.find(path), std::string::npos) << message;
}

TEST(Recording, NamesOfRunsStayOnOneLine) {
  const std::string path = testing::TempDir() + "names_" + std::to_string(::getpid()) + ".moescope";
  RunInfo info = sample_info({});
  info.name = "a\nmoescope-cli: error: forged";
  RecordingWriter(path).add_run(info);
  EXPECT_EQ(RecordingReader(path).runs().at(0).name, "a\\nmoescope-cli: error: forged");
  std::filesystem::remove(path);
}

// What could not be read again is refused before its first step.
TEST(Recording, ARunThatCannotBeReadIsNotBegun) {
  const std::string path = temporary_file("too_large.moescope");
  const auto refusal = [&](auto change) {
    RunInfo info = sample_info({});
    change(info);
    try {
      RecordingWriter(path).add_run(info);
    } catch (const std::runtime_error& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](RunInfo&) {}), "");
  EXPECT_NE(refusal([](RunInfo& info) { info.n_layers = 5000; }).find("number of layers is 5000, expected 0 to 4096"),
            std::string::npos);
  const auto many_experts = [](RunInfo& info) {
    info.n_experts = 65536;
    info.moe_layers.assign(17, 0);
  };
  EXPECT_NE(refusal(many_experts).find("number of experts of all layers is 1114112"), std::string::npos);
  const auto many_domains = [](RunInfo& info) { info.domains.assign(4097, "d"); };
  EXPECT_NE(refusal(many_domains).find("number of domains is 4097"), std::string::npos);
  const auto large_table = [](RunInfo& info) {
    info.domains.assign(4096, "d");
    info.moe_layers = {0};
    info.n_experts = 16384;
  };
  EXPECT_NE(refusal(large_table).find("number of domains times experts is 67108864"), std::string::npos);
  std::filesystem::remove(path);
}

// An incomplete file could not be opened, and no recording could be started in its place.
TEST(Recording, NothingIsLeftOfOneThatCannotBeStarted) {
  const std::string path = temporary_file("stub.moescope");
  const auto files = [&] {
    int count = 0;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) count += std::filesystem::exists(path + suffix);
    return count;
  };
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t bytes : {0, 4096, 20000, 60000}) {
    const rlimit full_disk{bytes, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full_disk), 0);
    EXPECT_THROW(RecordingWriter{path}, std::runtime_error) << bytes;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(files(), 0) << bytes;
  }
  signal(SIGXFSZ, old_handler);
  { RecordingWriter without_a_run(path); }
  EXPECT_EQ(files(), 0);
  RecordingWriter(path).add_run(sample_info({}));
  EXPECT_EQ(RecordingReader(path).runs().size(), 1u);
}

TEST(Recording, RoundTripIsBitExact) {
  const std::string path = temporary_file("round_trip.moescope");
  std::mt19937 rng(2);
  std::vector<FramePtr> frames[2];
  const SampleShape shapes[2] = {{}, {3, 20, 5, 2, 9}};
  {
    RecordingWriter writer(path);
    for (int run = 0; run < 2; ++run) {
      RunInfo info = sample_info(shapes[run]);
      info.run = run;
      writer.add_run(info);
    }
    for (int step = 0; step < 40; ++step) {
      std::vector<FramePtr> batch;
      for (int run = 0; run < 2; ++run) {
        TelemetryFrame frame = sample_frame(step, shapes[run], rng);
        frame.run = run;
        if (step % 3 == 1) frame.routers.clear();
        if (step % 5 == 1) frame.quants.clear();
        if (step == 7) frame.ce_loss = std::numeric_limits<float>::quiet_NaN();
        if (step == 8) {
          frame.ce_loss = kNoValue;
          frame.grad_norm = std::numeric_limits<float>::infinity();
        }
        if (step == 9) {
          frame.routers[0].margin = kNoValue;
          frame.routers[1].z_loss = std::numeric_limits<float>::quiet_NaN();
          frame.routers[1].expert_bias[2] = -std::numeric_limits<float>::infinity();
          frame.routers[0].expert_bias.clear();
          frame.routers[0].volume = {};
          frame.quants[0].sqnr_db = std::numeric_limits<float>::infinity();
          frame.quants[1].cosine = kNoValue;
          frame.quants[1].e8m0_blocks = {};
          frame.quants[2].e8m0_blocks[255] = 3;
          frame.routers[0].score_chosen = sample_counts(kWideHalfOctaves, 300, rng);
        }
        frames[run].push_back(share(std::move(frame)));
        batch.push_back(frames[run].back());
      }
      writer.write(batch);
    }
    writer.write(Marker{1, 12, "note", "an 'odd' note \xc3\xa9"});
  }
  const RecordingReader reader(path);
  ASSERT_EQ(reader.runs().size(), 2u);
  for (int run = 0; run < 2; ++run) {
    const RunInfo expected = sample_info(shapes[run]);
    const RunInfo& info = reader.runs()[run];
    EXPECT_EQ(info.run, run);
    EXPECT_EQ(info.name, expected.name);
    EXPECT_EQ(info.config_toml, expected.config_toml);
    EXPECT_EQ(info.moe_layers, expected.moe_layers);
    EXPECT_EQ(info.n_experts, expected.n_experts);
    EXPECT_EQ(info.tokens_per_step, expected.tokens_per_step);
    EXPECT_EQ(info.window, expected.window);
    EXPECT_EQ(info.kernels, expected.kernels);
    const auto history = reader.load(run);
    EXPECT_EQ(history->steps(), (StepRange{0, 39}));
    for (int step = 0; step < 40; ++step) {
      const TelemetryFrame& frame = *frames[run][step];
      if (!frame.routers.empty()) expect_equal(*history->frame_at(step), frame);
      if (!frame.quants.empty()) expect_equal(*history->quant_frame_at(step), frame);
      const float loss = history->value_at(Metric::ce_loss, kWholeRun, step);
      EXPECT_TRUE(same_bits(loss, frame.ce_loss) || step == 8) << step;
    }
    EXPECT_EQ(history->series(Metric::ce_loss, kWholeRun, {7, 8}, 2)[0].non_finite, 1u);
    EXPECT_EQ(history->series(Metric::ce_loss, kWholeRun, {7, 8}, 2)[1].missing, 1u);
    EXPECT_EQ(history->markers().size(), run == 1 ? 1u : 0u);
  }
}

// The tables of fields and the schema must name the same columns in the same order.
TEST(Recording, ColumnsAreTheFields) {
  const std::string path = temporary_file("columns.moescope");
  write_run(path, 1);
  Connection connection(path, SQLITE_OPEN_READONLY);
  const auto columns = [&](const std::string& table) {
    std::vector<std::string> names;
    Statement rows(connection, "SELECT name FROM pragma_table_info('" + table + "')");
    while (rows.next()) names.push_back(rows.get_text());
    return names;
  };
  const auto frame = columns("frame");
  for (std::size_t i = 0; i < kFrameFigures.size(); ++i) EXPECT_EQ(frame[5 + i], kFrameFigures[i].column);
  for (int p = 0; p < kNumPhases; ++p) {
    std::string name = std::string(phase_name(static_cast<Phase>(p))) + "_ms";
    if (name == "dense FFN_ms") name = "dense_ffn_ms";
    EXPECT_EQ(frame[6 + kFrameFigures.size() + static_cast<std::size_t>(p)], name);
  }
  const auto router = columns("router");
  for (std::size_t i = 0; i < kRouterFigures.size(); ++i) EXPECT_EQ(router[4 + i], kRouterFigures[i].column);
  const auto quant = columns("quant");
  for (std::size_t i = 0; i < kQuantFigures.size(); ++i) EXPECT_EQ(quant[9 + i], kQuantFigures[i].column);
  const auto gradient = columns("gradient");
  for (std::size_t i = 0; i < kGradientFigures.size(); ++i) EXPECT_EQ(gradient[5 + i], kGradientFigures[i].column);
  EXPECT_EQ(columns("flip")[4], kFlipFigures[0].column);
  EXPECT_EQ(connection.integer("PRAGMA application_id"), kApplicationId);
  EXPECT_EQ(connection.integer("PRAGMA user_version"), kFormatVersion);
}

TEST(Recording, RewindReplacesLaterSteps) {
  const std::string path = temporary_file("rewind.moescope");
  std::mt19937 rng(3);
  std::vector<FramePtr> a, b;
  {
    RecordingWriter writer(path);
    RunInfo info = sample_info({});
    writer.add_run(info);
    info.run = 1;
    writer.add_run(info);
    const auto write = [&](std::vector<FramePtr>& frames, int run, int first, int last) {
      frames.resize(first);
      for (int step = first; step <= last; ++step) {
        TelemetryFrame frame = sample_frame(step, {}, rng);
        frame.run = run;
        writer.write(std::vector{frames.emplace_back(share(std::move(frame)))});
      }
    };
    write(a, 0, 0, 30);
    write(b, 1, 0, 30);
    writer.write(Marker{0, 25, "note", "gone"});
    writer.write(Marker{1, 25, "note", "stays"});
    write(a, 0, 10, 20);
  }
  const RecordingReader reader(path);
  const auto history = reader.load(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 20}));
  for (int step = 0; step <= 20; ++step) expect_equal(*history->frame_at(step), *a[step]);
  EXPECT_TRUE(history->markers().empty());
  const auto other = reader.load(1);
  EXPECT_EQ(other->steps(), (StepRange{0, 30}));
  expect_equal(*other->frame_at(30), *b[30]);
  EXPECT_EQ(other->markers().size(), 1u);
  Connection connection(path, SQLITE_OPEN_READONLY);
  for (const char* table : kFrameTables)
    EXPECT_EQ(
        connection.integer(("SELECT count(*) FROM " + std::string(table) + " WHERE run = 0 AND step > 20").c_str()), 0)
        << table;
}

TEST(Recording, ProgressRisesAndCancels) {
  const std::string path = temporary_file("progress.moescope");
  write_run(path, 400);
  const RecordingReader reader(path);
  double last = 0;
  const auto rises = [&](double p) {
    EXPECT_GE(p, last);
    last = p;
    return true;
  };
  ASSERT_NE(reader.load(0, rises), nullptr);
  EXPECT_EQ(last, 1.0);
  EXPECT_EQ(reader.load(0, [](double p) { return p < 0.3; }), nullptr);
  EXPECT_NE(reader.load(0), nullptr) << "a cancelled load leaves the reader usable";
}

TEST(Recording, ReadsWhileTheWriterGoesOn) {
  const std::string path = temporary_file("live.moescope");
  std::mt19937 rng(4);
  RecordingWriter writer(path);
  writer.add_run(sample_info({}));
  const RecordingReader early(path);
  std::atomic<bool> done{false};
  std::thread reading([&] {
    std::int64_t last = -1;
    while (!done) {
      const auto history = RecordingReader(path).load(0);
      ASSERT_GE(history->steps().last, last);
      last = history->steps().last;
      if (last >= 0) {
        ASSERT_EQ(history->frame_at(last)->step, last);
        ASSERT_EQ(history->steps().size(), last + 1);
        ASSERT_EQ(history->frame_at(last)->quants.size(), 12u) << "never half a frame";
      }
    }
  });
  for (int step = 0; step < 300; ++step) writer.write(std::vector{share(sample_frame(step, {}, rng))});
  done = true;
  reading.join();
  EXPECT_EQ(early.load(0)->steps(), (StepRange{0, 299}));
}

// A window with a growing recording gets every step once, and goes back when the training is rewound.
TEST(Recording, GrowsInTheHistoryThatWasLoaded) {
  const std::string path = temporary_file("grows.moescope");
  std::mt19937 rng(4);
  RecordingWriter writer(path);
  writer.add_run(sample_info({}));
  std::vector<std::shared_ptr<const TelemetryFrame>> written;
  const auto write = [&](std::int64_t step) {
    written.push_back(share(sample_frame(step, {}, rng)));
    writer.write(std::vector{written.back()});
  };
  write(0);
  const RecordingReader reader(path);
  const auto history = reader.load(0);
  EXPECT_EQ(history->steps(), (StepRange{0, 0}));
  EXPECT_EQ(reader.load_new(), 0u);
  for (int step = 1; step < 40; ++step) {
    write(step);
    if (step % 3 == 0) {
      EXPECT_EQ(reader.load_new(), 3u) << step;
    }
  }
  EXPECT_EQ(history->steps(), (StepRange{0, 39}));
  expect_equal(*history->frame_at(39), *written[39]);
  EXPECT_EQ(reader.load_new(), 0u);
  writer.write(Marker{0, 40, "note", "here"});
  EXPECT_EQ(reader.load_new(), 1u);
  ASSERT_EQ(history->markers().size(), 1u);
  write(20);  // a rewind
  write(21);
  EXPECT_EQ(reader.load_new(), 2u);
  EXPECT_EQ(history->steps(), (StepRange{0, 21}));
  expect_equal(*history->frame_at(20), *written[40]);
  EXPECT_TRUE(history->markers().empty());
}

TEST(Recording, RefusesToReplaceOtherFiles) {
  const std::string path = temporary_file("letter.txt");
  std::ofstream(path)
      << "Dear reader, this is no recording, and it is longer than a header of a hundred bytes. Keep it.";
  EXPECT_THROW(RecordingWriter writer(path), std::runtime_error);
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_TRUE(text.starts_with("Dear reader"));

  const std::string recording = temporary_file("mine.moescope");
  write_run(recording, 5);
  write_run(recording, 3);
  EXPECT_EQ(RecordingReader(recording).load(0)->steps().last, 2) << "an old recording is replaced";
  {
    RecordingWriter open(recording);
    open.add_run(sample_info({}));
    EXPECT_THROW(RecordingWriter second_writer(recording), std::runtime_error);
    open.write(std::vector{share(TelemetryFrame{})});
  }
  EXPECT_EQ(RecordingReader(recording).load(0)->steps().last, 0);
}

TEST(Recording, ErrorsNameTheFault) {
  expect_failure(temporary_file("none.moescope"), "o such file");
  expect_failure(std::filesystem::temp_directory_path(), "is a directory");

  const std::string text = temporary_file("text.moescope");
  std::ofstream(text) << std::string(5000, 'x');
  expect_failure(text, "no SQLite database");

  const std::string empty = temporary_file("empty.moescope");
  std::ofstream{empty};
  expect_failure(empty, "empty");

  const std::string foreign = temporary_file("foreign.moescope");
  Connection(foreign, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE).execute("CREATE TABLE songs (name TEXT)");
  expect_failure(foreign, "application id 0x00000000, expected 0x4d6f4553");

  const std::string other = temporary_file("other_format.moescope");
  write_run(other, 2);
  Connection(other, SQLITE_OPEN_READWRITE).execute("PRAGMA user_version = 2");
  expect_failure(other,
                 "format 2, but this MoEScope reads format 1: open it with the version of MoEScope that wrote it");

  const std::string earlier = temporary_file("earlier_build.moescope");
  write_run(earlier, 2);
  Connection(earlier, SQLITE_OPEN_READWRITE).execute("ALTER TABLE router DROP COLUMN cv");
  expect_failure(earlier, "table router has other columns than this MoEScope writes");
}

TEST(Recording, SpecialisationAndTextsRoundTripBitForBit) {
  const std::string path = temporary_file("texts.moescope");
  std::mt19937 rng(8);
  const SampleShape shape{3, 12, 4, 2, 3};
  std::vector<TelemetryFrame> frames;
  for (int step = 0; step < 6; ++step) {
    frames.push_back(sample_frame(step, shape, rng));
    if (step != 3) add_specialisation_and_texts(frames.back(), shape, rng);
  }
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info(shape));
    for (const TelemetryFrame& frame : frames) writer.write(std::vector{share(frame)});
  }
  const RecordingReader reader(path);
  EXPECT_EQ(reader.runs()[0].domains, sample_info(shape).domains);
  const auto history = reader.load(0);
  const auto expect_specialisation = [&](std::int64_t requested_step, std::size_t found) {
    const auto frame = history->specialisation_frame_at(requested_step);
    ASSERT_NE(frame, nullptr);
    EXPECT_EQ(frame->step, static_cast<std::int64_t>(found));
    ASSERT_EQ(frame->specialisation.size(), frames[found].specialisation.size());
    for (std::size_t i = 0; i < frame->specialisation.size(); ++i)
      expect_equal(frame->specialisation[i], frames[found].specialisation[i]);
  };
  expect_specialisation(1, 1);
  expect_specialisation(3, 2);
  const auto expect_text = [&](TextKind kind, std::int64_t requested_step, std::size_t found, std::size_t position) {
    std::int64_t step = requested_step;
    const auto text = history->text_at(kind, step);
    ASSERT_NE(text, nullptr);
    EXPECT_EQ(step, static_cast<std::int64_t>(found));
    expect_equal(*text, frames[found].texts[position]);
  };
  expect_text(TextKind::probe, 1, 1, 0);
  expect_text(TextKind::batch, 3, 2, 1);
  expect_text(TextKind::sample, 3, 2, 2);
  expect_text(TextKind::sample, 2, 2, 2);
  EXPECT_EQ(history->text_steps(TextKind::sample), (std::vector<std::int64_t>{0, 2, 4}));
  EXPECT_EQ(history->text_steps(TextKind::probe), (std::vector<std::int64_t>{0, 1, 2, 4, 5}));
}

TEST(Recording, DamagedRowsAreNamed) {
  struct Case {
    const char* sql;
    const char* message;
  };
  for (const Case c : {
           Case{"UPDATE router SET tokens_per_expert = x'010203' WHERE step = 3", "tokens_per_expert has 3 bytes"},
           Case{"UPDATE router SET layer = 77 WHERE step = 3", "layer 77 is not among"},
           Case{"UPDATE volume SET ranks = 2000000000 WHERE step = 3", "ranks is 2000000000"},
           Case{"UPDATE volume SET count_bytes = 3 WHERE step = 3", "count_bytes is 3"},
           Case{"UPDATE quant SET weight = 'w9' WHERE step = 3", "weight is 'w9'"},
           Case{"UPDATE flip SET reference = 'x' WHERE step = 3", "reference is 'x'"},
           Case{"UPDATE quant SET gemm_class = 'w1' WHERE step = 3", "gemm_class is 'w1'"},
           Case{"UPDATE quant SET first_byte = 250 WHERE step = 3", "expected 0 to 6"},
           Case{"UPDATE flip SET margin_flipped = x'00' WHERE step = 3", "margin_flipped has 1 bytes"},
           Case{"UPDATE gradient SET tensors = 'norms' WHERE step = 3", "tensors is 'norms'"},
           Case{"UPDATE gradient SET layer = -2 WHERE step = 3", "layer is -2"},
           Case{"UPDATE router SET score_chosen = x'0102' WHERE step = 3", "score_chosen has 2 bytes"},
           Case{"UPDATE specialisation SET together = x'00' WHERE step = 3", "together has 1 bytes"},
           Case{"UPDATE specialisation SET domain_experts = x'000000' WHERE step = 3", "domain_experts has 3 bytes"},
           Case{"UPDATE text SET kind = 'song' WHERE step = 3", "kind is 'song'"},
           Case{"UPDATE text SET text = x'4142' WHERE step = 3", "expected 8"},
           Case{"UPDATE text SET prompt = 700 WHERE step = 3", "prompt is 700"},
           Case{"UPDATE text_layer SET top_k = 1000 WHERE step = 3", "top_k is 1000"},
           Case{"UPDATE text_layer SET position = 3 WHERE step = 3", "position is 3"},
           Case{"UPDATE text_layer SET experts = x'ff' WHERE step = 3", "experts has 1 bytes"},
           Case{"UPDATE text_layer SET experts = replace(hex(zeroblob(length(experts) / 2)), '0', 'a') WHERE step = 3",
                "expert is "},
           Case{"UPDATE run SET domains = '[1]'", "domains is not"},
           Case{"UPDATE run SET n_experts = 1000000000", "n_experts is 1000000000"},
           Case{"UPDATE run SET moe_layers = '{\"a\": 1}'", "moe_layers"},
           Case{"UPDATE run SET moe_layers = '[1.5]'", "moe_layers"},
           Case{"DROP TABLE quant", "no such table: quant"},
           Case{"DELETE FROM router WHERE step = 3", "no such router row"},
       }) {
    const std::string path = temporary_file("damaged.moescope");
    write_run(path, 5, true);
    Connection(path, SQLITE_OPEN_READWRITE).execute(c.sql);
    expect_failure(path, c.message);
  }
}

// A file that is truncated anywhere or has flipped bits gives an error or can be read, without a crash.
TEST(Recording, SurvivesTruncationAndFlippedBytes) {
  const std::string path = temporary_file("whole.moescope");
  write_run(path, 30);
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  ASSERT_GT(whole.size(), 40000u);
  const std::string broken = temporary_file("broken.moescope");
  std::mt19937 rng(5);
  int failures = 0;
  for (int trial = 0; trial < 150; ++trial) {
    std::string bytes = whole;
    if (trial % 3 == 0) {
      bytes.resize(rng() % whole.size());
    } else {
      for (int n = 1 + rng() % 20; n > 0; --n) bytes[100 + rng() % (bytes.size() - 100)] = static_cast<char>(rng());
    }
    std::ofstream(broken, std::ios::binary | std::ios::trunc) << bytes;
    failures += !failure(broken).empty();
    for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(broken + suffix);
  }
  EXPECT_GE(failures, 50) << "every truncation at the least";
}

// kill -9 at a random moment. The child reports through a pipe which steps were published and flushed.
TEST(Recording, KilledProcessLosesUndrainedStepsOnly) {
  std::mt19937 rng(6);
  for (int trial = 0; trial < 12; ++trial) {
    const std::string path = temporary_file("killed.moescope");
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(fds[0]);
      std::mt19937 child_rng(trial);
      FrameSink sink(path);
      sink.add_run(sample_info({}));
      for (std::int64_t step = 0;; ++step) {
        sink.publish(sample_frame(step, {}, child_rng));
        sink.flush();
        if (write(fds[1], &step, sizeof step) != sizeof step) _exit(1);
      }
    }
    close(fds[1]);
    std::int64_t drained = -1;
    ASSERT_EQ(read(fds[0], &drained, sizeof drained), static_cast<ssize_t>(sizeof drained));
    std::this_thread::sleep_for(std::chrono::microseconds(rng() % 60000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    for (std::int64_t step; read(fds[0], &step, sizeof step) == sizeof step;) drained = step;
    close(fds[0]);
    const auto history = RecordingReader(path).load(0);
    EXPECT_GE(history->steps().last, drained);
    EXPECT_LE(history->steps().last, drained + 1);
    EXPECT_EQ(history->steps().size(), history->steps().last + 1);
    EXPECT_EQ(history->frame_at(INT64_MAX)->step, history->steps().last);
    EXPECT_EQ(history->quant_frame_at(INT64_MAX)->quants.size(), 12u);
  }
}

// Opens a recording as a user who may read the folder, but not write to it (root may write anywhere, so that the child
// becomes nobody).
TEST(Recording, OpensInAFolderThatCannotBeWritten) {
  const auto folder = std::filesystem::temp_directory_path() / "moescope_read only#1";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const std::string path = folder / "a.moescope";
  write_run(path, 4);
  using std::filesystem::perms;
  std::filesystem::permissions(folder, static_cast<perms>(0555));
  std::filesystem::permissions(path, static_cast<perms>(0444));
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    _exit(failure(path).empty() && RecordingReader(path).load(0)->steps().last == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(folder, perms::owner_all);
  std::filesystem::remove_all(folder);
}

TEST(JsonLines, KeysAreTheFieldsAndNaNIsNamed) {
  std::mt19937 rng(7);
  TelemetryFrame frame = sample_frame(5, {}, rng);
  frame.ce_loss = std::numeric_limits<float>::quiet_NaN();
  add_specialisation_and_texts(frame, {}, rng);
  frame.lr = 0.1f;
  frame.routers[1].margin = kNoValue;
  const std::string line = to_json_line(frame);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find("\"lr\":0.1,"), std::string::npos) << "shortest digits";
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["specialisation"][1]["together"][2][3], frame.specialisation[1].together_EE[2 * 8 + 3]);
  EXPECT_EQ(json["specialisation"][0]["domain"][2][5], frame.specialisation[0].domain_DE[2 * 8 + 5]);
  EXPECT_EQ(json["specialisation"][0]["byte"]["65"][5], frame.specialisation[0].byte_256E[65 * 8 + 5]);
  EXPECT_EQ(unescape_bytes(json["texts"][0]["text"].get<std::string>()), frame.texts[0].text);
  EXPECT_TRUE(json["texts"][0]["loss"][0].is_null());
  EXPECT_EQ(json["texts"][1]["layers"][1]["experts"][4][1], frame.texts[1].layers[1].experts_TK[4 * 2 + 1]);
  EXPECT_EQ(json["step"], 5);
  EXPECT_EQ(json["ce_loss"], "NaN");
  EXPECT_TRUE(json["routers"][1]["margin"].is_null());
  for (const auto& field : kFrameFigures) {
    EXPECT_TRUE(json.contains(field.column));
    const auto& value = json[field.column];
    EXPECT_TRUE(value == "NaN" || value.get<float>() == frame.*field.member) << field.column;
  }
  EXPECT_EQ(json["phase_ms"]["dense_ffn"].get<float>(), frame.phase_ms[static_cast<int>(Phase::dense_ffn)]);
  for (const auto& field : kRouterFigures) {
    EXPECT_EQ(json["routers"][0][field.column].get<float>(), frame.routers[0].*field.member);
  }
  EXPECT_EQ(json["routers"][0]["tokens_per_expert"].get<std::vector<std::uint32_t>>(),
            frame.routers[0].tokens_per_expert);
  EXPECT_EQ(json["routers"][0]["volume"]["copies"][1][2], frame.routers[0].volume.copies_RR[1 * 4 + 2]);
  EXPECT_EQ(json["routers"][0]["volume"]["nodes"].size(), 4u);
  std::uint64_t blocks = 0, expected = 0;
  for (const auto& [byte, n] : json["quants"][3]["e8m0_blocks"].items()) {
    EXPECT_EQ(frame.quants[3].e8m0_blocks[std::stoi(byte)], n);
    blocks += n.get<std::uint32_t>();
  }
  for (const std::uint32_t n : frame.quants[3].e8m0_blocks) expected += n;
  EXPECT_EQ(blocks, expected);
  EXPECT_FALSE(nlohmann::json::parse(to_json_line(TelemetryFrame{})).contains("routers"));
}

// Writes two runs that are rewound once, with so many rows of layers that several threads read them.
void write_large(const std::string& path, int steps) {
  constexpr SampleShape kShape{.moe_layers = 12, .operands = 1};
  std::mt19937 rng(5);
  RecordingWriter writer(path);
  for (int run = 0; run < 2; ++run) {
    RunInfo info = sample_info(kShape);
    info.run = run;
    writer.add_run(info);
  }
  std::vector<FramePtr> frames;
  for (int i = 0; i < 2 * steps; ++i) {
    TelemetryFrame frame = sample_frame(i / 2 < 300 ? i / 2 : i / 2 - 50, kShape, rng);
    frame.run = i % 2;
    if (i % 40 == 0) add_specialisation_and_texts(frame, kShape, rng);
    frames.push_back(share(std::move(frame)));
  }
  writer.write(frames);
}

TEST(Recording, ReadingIsIndependentOfThreads) {
  const std::string path = temporary_file("large.moescope");
  write_large(path, 400);
  const RecordingReader reader(path);
  for (int run = 0; run < 2; ++run) {
    std::vector<FramePtr> one_by_one;
    reader.read(run, [&](const FramePtr& frame, double) {
      one_by_one.push_back(frame);
      return true;
    });
    const auto history = reader.load(run);
    EXPECT_EQ(history->steps(), (StepRange{0, 349}));
    ASSERT_EQ(one_by_one.size(), 350u);
    for (const FramePtr& frame : one_by_one) {
      const auto loaded = history->frame_at(frame->step);
      ASSERT_EQ(loaded->step, frame->step);
      for (std::size_t i = 0; i < frame->routers.size(); ++i) expect_equal(loaded->routers[i], frame->routers[i]);
      if (!frame->specialisation.empty())
        expect_equal(history->specialisation_frame_at(frame->step)->specialisation[3], frame->specialisation[3]);
    }
  }
}

TEST(Recording, SeveralThreadsNameTheFirstDamage) {
  const std::string path = temporary_file("large_damaged.moescope");
  write_large(path, 400);
  {
    Connection file(path, SQLITE_OPEN_READWRITE);
    file.execute(
        "UPDATE router SET tokens_per_expert = x'00' WHERE id IN ((301 << 16) + 3, (301 << 16) + 4, 303 << 16, 699 << "
        "16)");
  }
  expect_failure(path, "damaged: table router, id 19726339: tokens_per_expert has 1 bytes");
}

TEST(Recording, AGlanceHasTheFiguresOfEveryStepAndArraysOfSome) {
  const std::string path = temporary_file("glance.moescope");
  constexpr int kSteps = 1600, kLayers = 60;
  RunInfo info = sample_info({.moe_layers = kLayers, .n_experts = 2});
  {
    RecordingWriter writer(path);
    writer.add_run(info);
    std::vector<FramePtr> frames;
    for (int step = 0; step < kSteps; ++step) {
      TelemetryFrame frame;
      frame.step = step;
      frame.ce_loss = static_cast<float>(step);
      for (int layer = 1; layer <= kLayers; ++layer) {
        RouterFrame& router = frame.routers.emplace_back();
        router.layer = layer;
        router.tokens_per_expert = {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(layer)};
      }
      frames.push_back(share(std::move(frame)));
    }
    writer.write(frames);
  }
  const RecordingReader reader(path);
  EXPECT_TRUE(reader.is_large(0));
  const auto glance = reader.load(0, {}, std::size_t{512} << 20, -1, true), whole = reader.load(0);
  EXPECT_EQ(glance->steps(), whole->steps());
  EXPECT_EQ(glance->values(Metric::ce_loss, kWholeRun, {0, kSteps - 1}),
            whole->values(Metric::ce_loss, kWholeRun, {0, kSteps - 1}));
  int with_arrays = 0;
  for (int step = 0; step < kSteps; ++step) {
    const auto frame = glance->frame_at(step);
    if (frame->step != step) continue;
    ++with_arrays;
    expect_equal(frame->routers[kLayers - 1], whole->frame_at(step)->routers[kLayers - 1]);
  }
  EXPECT_EQ(with_arrays, 534) << "every third";
  write_run(temporary_file("small.moescope"), 5);
  EXPECT_FALSE(RecordingReader(temporary_path("small.moescope")).is_large(0));
}

}  // namespace
}  // namespace moescope
