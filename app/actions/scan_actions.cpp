#include "app/actions/scan_actions.h"

#include <QTemporaryDir>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "app/session/kernel_question.h"
#include "app/session/run_session.h"
#include "app/workspaces/workspace_tabs.h"
#include "core/checkpoints/checkpoint_tokenizer.h"
#include "core/checkpoints/export_model.h"
#include "core/frame/frame.h"
#include "core/model/text/dataset.h"
#include "core/recording/marks.h"
#include "core/training/engine/engine.h"
#include "core/training/trainer.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/specialisation_panel.h"

namespace moescope {
namespace {

constexpr int kPollMs = 100;

// Limits on the number of pieces: one for each text, or several for each if there are few texts.
constexpr int kMinPieces = 8, kMaxPieces = 16;

TextSources sourcesOf(const History& run) {
  auto sources = text_sources_in(run.settings_at_start()->log());
  if (!sources) throw std::runtime_error("the recording has no paths of its texts");
  return std::move(*sources);
}

// Writes the weights of a trainer as a checkpoint of transformers.
void exportInto(const QTemporaryDir& folder, const Trainer& trainer) {
  const std::string saved = folder.filePath("run.safetensors").toStdString();
  trainer.save(saved);
  export_for_transformers(saved, folder.filePath("model").toStdString());
}

std::vector<LabelledText> heldOutTexts(const RunConfig& config) {
  std::vector<LabelledText> texts;
  const auto data = open_dataset(config.data, config.seed);
  for (const Batch& batch : data->held_out())
    for (int row = 0; row < batch.sequences; ++row) {
      const auto first = batch.input.begin() + std::ptrdiff_t{row} * batch.length;
      const std::size_t domain = batch.domain[row];
      texts.push_back({domain < data->domains().size() ? data->domains()[domain] : std::string("text"),
                       {first, first + batch.length}});
    }
  if (texts.empty()) throw std::runtime_error("no text is held out: \"Held-out share\" in Set-up is 0");
  return texts;
}

}  // namespace

CheckpointScan::CheckpointScan(const History& run, Measure measure) : measure_(std::move(measure)) {
  start([this, folder = run.info().source, sources = sourcesOf(run)](const std::stop_token& stop) {
    const std::filesystem::path tokens = std::filesystem::path(folder) / "tokenizer.json";
    std::optional<CheckpointTokenizer> opened;
    if (std::filesystem::exists(tokens)) opened = open_checkpoint_tokenizer(folder);
    CheckpointModel model(folder);
    this->measure(model, read_all(sources, opened ? &opened->tokenizer : nullptr).texts, sources.length, stop);
  });
}

CheckpointScan::CheckpointScan(RecomputePlan plan, std::vector<std::int64_t> steps, Measure measure)
    : last_step_(steps.back()), measure_(std::move(measure)) {
  start([this, plan = std::move(plan), steps = std::move(steps)](const std::stop_token& stop) {
    measureRun(plan, steps, stop);
  });
}

CheckpointScan::CheckpointScan(RecomputePlan plan, std::shared_ptr<OperandScan> found) : last_step_(plan.step) {
  start([this, plan = std::move(plan), found = std::move(found)](const std::stop_token& stop) {
    *found = scan_recorded_step(
        plan, stop, [this](std::int64_t next) { next_step_ = next; },
        [this](int done, int total) {
          done_ = done;
          passes_ = total;
        });
    ++measured_;
  });
}

void CheckpointScan::start(std::function<void(const std::stop_token&)> work) {
  thread_ = std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
    try {
      work(stop);
      if (stop.stop_requested()) error_ = "cancelled";
    } catch (const std::exception& error) {
      error_ = error.what();
    }
    has_ended_ = true;
  });
}

void CheckpointScan::measureRun(const RecomputePlan& plan, const std::vector<std::int64_t>& steps,
                                const std::stop_token& stop) {
  auto wanted_step = steps.begin();
  retrain(
      plan.training,
      [&](Engine& engine) {
        if (stop.stop_requested()) throw std::runtime_error("cancelled");
        next_step_ = engine.next_step();
        if (next_step_ < *wanted_step) return true;
        const QTemporaryDir folder;
        const RunConfig& config = engine.find(0)->config();
        exportInto(folder, *engine.find(0));
        CheckpointModel model(folder.filePath("model").toStdString());
        measure(model, heldOutTexts(config), config.data.seq, stop);
        passes_ = 0;
        return ++wanted_step != steps.end();
      },
      [](const TelemetryFrame&) { return true; });
  if (wanted_step != steps.end()) throw std::runtime_error("the copy did not reach the step");
}

void CheckpointScan::measure(CheckpointModel& model, const std::vector<LabelledText>& texts, Index length,
                             const std::stop_token& stop) {
  const int pieces = std::clamp(to_int(texts.size()), kMinPieces, kMaxPieces);
  measure_(model, texts, {.length = length, .pieces = pieces}, [&](int done, int total) {
    done_ = done;
    passes_ = total;
    return !stop.stop_requested();
  });
  if (!stop.stop_requested()) ++measured_;
}

ScanActions::ScanActions(const Context& context)
    : Actions(context),
      panels_(workspaces_->findChildren<OperandCostsPanel*>()),
      specialisation_(workspaces_->findChildren<SpecialisationPanel*>()),
      coactivation_(workspaces_->findChildren<CoactivationPanel*>()),
      experts_(workspaces_->findChildren<ExpertPanel*>()) {
  timer_.setInterval(kPollMs);
  connect(&timer_, &QTimer::timeout, this, &ScanActions::look);
  connect(session_, &RunSession::opened, this, [this] {
    timer_.stop();
    scan_.reset();
    truncations_ = truncations();
    showRecorded();
  });
  connect(selection_, &Selection::dataChanged, this, &ScanActions::forgetAfterRewind);
  for (OperandCostsPanel* panel : panels_) {
    connect(panel, &OperandCostsPanel::measurementRequested, this, &ScanActions::ask);
    connect(panel, &OperandCostsPanel::twinsRequested, this, &ScanActions::startTwins);
    connect(panel, &OperandCostsPanel::measurementCancelled, this, [this] { stop("Cancelled."); });
  }
  for (SpecialisationPanel* panel : specialisation_) {
    connect(panel, &SpecialisationPanel::removalRequested, this, &ScanActions::startRemoval);
    connect(panel->measureButton(), &MeasureButton::cancelled, this, [this] { stop("Cancelled."); });
  }
  for (CoactivationPanel* panel : coactivation_) {
    connect(panel, &CoactivationPanel::similarityRequested, this, &ScanActions::startSimilarity);
    connect(panel->measureButton(), &MeasureButton::cancelled, this, [this] { stop("Cancelled."); });
  }
}

namespace {

// Returns the place of the first run with markers of this kind, and its newest such marker; place -1: there is none.
std::pair<int, Marker> recorded(const std::vector<HistoryPtr>& histories, std::string_view kind) {
  for (std::size_t run = 0; run < histories.size(); ++run) {
    std::optional<Marker> found;
    for (const Marker& marker : histories[run]->markers())
      if (marker.kind == kind) found = marker;
    if (found) return {to_int(run), *found};
  }
  return {-1, {}};
}

}  // namespace

std::shared_ptr<const MeasuredTwins> ScanActions::recordedTwins() const {
  const auto [run, marker] = recorded(session_->histories(), kOperandsMarker);
  auto scan = run < 0 ? std::nullopt : scan_in(marker.text);
  if (!scan || scan->twins.empty()) return nullptr;
  return std::make_shared<const MeasuredTwins>(MeasuredTwins{runLabel(*selection_, run), std::move(*scan)});
}

template <typename Figures>
std::shared_ptr<const Measured<Figures>> ScanActions::recordedFigures(
    const char* kind, std::optional<Figures> (*read)(const std::string& json)) const {
  const int run = recorded(session_->histories(), kind).first;
  if (run < 0) return nullptr;
  Measured<Figures> measured{runLabel(*selection_, run), {}};
  for (const Marker& marker : session_->histories()[run]->markers()) {
    auto figures = marker.kind == kind ? read(marker.text) : std::nullopt;
    if (figures) measured.by_step[marker.step] = std::move(*figures);
  }
  return measured.by_step.empty() ? nullptr : std::make_shared<const Measured<Figures>>(std::move(measured));
}

void ScanActions::showRecorded() {
  for (OperandCostsPanel* panel : panels_) panel->showMeasured(nullptr);
  showTwins(recordedTwins());
  showExperts(recordedFigures(kExpertsMarker, expert_scan_in));
  showSimilarity(recordedFigures(kSimilarityMarker, similarity_in));
}

std::uint64_t ScanActions::truncations() const {
  std::uint64_t sum = 0;
  for (const HistoryPtr& history : session_->histories()) sum += history->truncations();
  return sum;
}

// Called on new data. A rewind deletes the later steps and their measurements, so the measurements are read again.
void ScanActions::forgetAfterRewind() {
  const std::uint64_t count = truncations();
  if (std::exchange(truncations_, count) >= count) return;
  if (scan_) stop("Cancelled: the run was rewound.");
  showRecorded();
}

void ScanActions::showTwins(const std::shared_ptr<const MeasuredTwins>& measured) {
  for (OperandCostsPanel* panel : panels_) panel->showTwins(measured);
}

void ScanActions::showExperts(std::shared_ptr<const MeasuredExperts> measured) {
  measured_experts_ = std::move(measured);
  for (SpecialisationPanel* panel : specialisation_) panel->showExperts(measured_experts_);
  for (ExpertPanel* panel : experts_) panel->showExperts(measured_experts_);
}

void ScanActions::showSimilarity(std::shared_ptr<const MeasuredSimilarity> measured) {
  measured_similarity_ = std::move(measured);
  for (CoactivationPanel* panel : coactivation_) panel->showSimilarity(measured_similarity_);
  for (ExpertPanel* panel : experts_) panel->showSimilarity(measured_similarity_);
}

void ScanActions::ask(int run, std::int64_t step) {
  const std::string kernels = session_->histories()[run]->info().kernels;
  withKernelsAsked(messages_->window(), kernels, session_->paths(), [this, run, step] { start(run, step); });
}

// Sets what is measured next. Cancels a measurement that is still running.
void ScanActions::begin(int run, const QString& what, Subject subject) {
  if (scan_) stop("Cancelled.");
  subject_ = subject;
  place_ = run;
  run_ = runLabel(*selection_, run);
  what_ = what;
}

void ScanActions::start(int run, std::int64_t step) {
  begin(run, "Rounding one operand at a time", Subject::operands);
  const auto scan = std::make_shared<OperandScan>();
  const auto make = [&] {
    return std::make_unique<CheckpointScan>(session_->planOfStep(*session_->histories()[run], {}, step), scan);
  };
  startScan(make, [this, scan, step](std::size_t) {
    const auto measured = std::make_shared<const MeasuredOperands>(MeasuredOperands{run_, step, *scan});
    for (OperandCostsPanel* panel : panels_) panel->showMeasured(measured);
  });
}

void ScanActions::startTwins(int run, Recipe recipe) {
  begin(run, "Rounding one operand at a time", Subject::operands);
  const HistoryPtr history = session_->histories()[run];
  const auto scan = std::make_shared<PrecisionScan>();
  const auto measure = [scan, recipe](CheckpointModel& model, const auto& texts, const ComparedTexts& which,
                                      const auto& progress) {
    *scan = compare_precision(model, texts, which, recipe, progress);
  };
  startScan([&] { return std::make_unique<CheckpointScan>(*history, measure); },
            [this, scan, last = history->steps().last](std::size_t) {
              keep(kOperandsMarker, last, scan_json(*scan));
              showTwins(std::make_shared<const MeasuredTwins>(MeasuredTwins{run_, *scan}));
            });
}

namespace {

// Returns the earlier measurements of the run and the figures of one more step.
template <typename Figures>
std::shared_ptr<const Measured<Figures>> withStep(const std::shared_ptr<const Measured<Figures>>& before,
                                                  const QString& run, std::int64_t step, const Figures& figures) {
  Measured<Figures> measured{run, {}};
  if (before && before->run == run) measured.by_step = before->by_step;
  measured.by_step[step] = figures;
  return std::make_shared<const Measured<Figures>>(std::move(measured));
}

}  // namespace

void ScanActions::startRemoval(int run, std::vector<std::int64_t> steps) {
  begin(run, "Leaving out experts", Subject::removal);
  startOnExperts<ExpertScan>(run, std::move(steps), remove_each_expert,
                             [this](std::int64_t step, const ExpertScan& scan) {
                               keep(kExpertsMarker, step, scan_json(scan));
                               showExperts(withStep(measured_experts_, run_, step, scan));
                             });
}

void ScanActions::startSimilarity(int run, std::int64_t step) {
  begin(run, "Comparing the outputs of experts", Subject::similarity);
  startOnExperts<ExpertSimilarity>(run, {step}, similarity_of_experts,
                                   [this](std::int64_t at, const ExpertSimilarity& similarity) {
                                     keep(kSimilarityMarker, at, similarity_json(similarity));
                                     showSimilarity(withStep(measured_similarity_, run_, at, similarity));
                                   });
}

template <typename Figures>
void ScanActions::startOnExperts(int run, std::vector<std::int64_t> steps, MeasureFigures<Figures> measure_figures,
                                 std::function<void(std::int64_t step, const Figures& figures)> add) {
  const HistoryPtr history = session_->histories()[run];
  const bool checkpoint = run_origin(history->info()) == RunOrigin::checkpoint;
  if (checkpoint) steps = {history->steps().last};
  const auto found = std::make_shared<std::vector<Figures>>();
  found->reserve(steps.size());  // so that push_back() in the thread does not move earlier elements
  const auto measure = [found, measure_figures](CheckpointModel& model, const auto& texts, const ComparedTexts& which,
                                                const auto& progress) {
    found->push_back(measure_figures(model, texts, which, progress));
  };
  startScan(
      [&] {
        if (checkpoint) return std::make_unique<CheckpointScan>(*history, measure);
        const RunConfig* config = history->settings_at_start()->config();
        const std::string problem = config ? why_not_in_transformers(*config) : std::string("no settings are recorded");
        if (!problem.empty()) throw std::runtime_error(problem);
        return std::make_unique<CheckpointScan>(session_->planOfStep(*history, {}, steps.front()), steps, measure);
      },
      [found, steps, add = std::move(add)](std::size_t index) { add(steps[index], (*found)[index]); });
}

void ScanActions::startScan(const std::function<std::unique_ptr<CheckpointScan>()>& scan, Found found) {
  found_ = std::move(found);
  shown_measurements_ = 0;
  try {
    scan_ = scan();
  } catch (const std::exception& refused) {
    return stop(QString("This cannot be measured: %1.").arg(QString::fromUtf8(refused.what())));
  }
  timer_.start();
  look();
}

void ScanActions::keep(const char* kind, std::int64_t step, const std::string& data) {
  if (session_->isLive()) return session_->live()->pin({session_->runAt(place_), step, kind, data});
  const HistoryPtr history = session_->histories()[place_];
  try {
    const auto recorded = session_->recordedRun(place_);
    if (!recorded) return;
    write_marker(recorded->file, {recorded->run, step, kind, data});
    // No other thread writes to a history after it was opened, and History is thread-safe.
    std::const_pointer_cast<History>(history)->append(Marker{history->info().run, step, kind, data});
  } catch (const std::exception& refused) {
    messages_->say(QString("The measurement is not kept in the recording: %1").arg(QString::fromUtf8(refused.what())),
                   8000);
  }
}

void ScanActions::stop(const QString& reason) {
  timer_.stop();
  scan_.reset();
  for (MeasureButton* button : buttons()) button->showRefused(reason);
  if (subject_ == Subject::operands)
    for (OperandCostsPanel* panel : panels_) panel->showRefused(reason);
}

std::vector<MeasureButton*> ScanActions::buttons() const {
  std::vector<MeasureButton*> buttons;
  if (subject_ == Subject::removal)
    for (const SpecialisationPanel* panel : specialisation_) buttons.push_back(panel->measureButton());
  if (subject_ == Subject::similarity)
    for (const CoactivationPanel* panel : coactivation_) buttons.push_back(panel->measureButton());
  return buttons;
}

void ScanActions::showProgress(const QString& progress) {
  for (MeasureButton* button : buttons()) button->showProgress(progress);
  if (subject_ == Subject::operands)
    for (OperandCostsPanel* panel : panels_) panel->showMeasuring(progress);
}

void ScanActions::look() {
  if (!scan_) return;
  const bool has_ended = scan_->hasEnded();
  for (const int measured = scan_->measured(); shown_measurements_ < measured; ++shown_measurements_)
    found_(shown_measurements_);
  if (!has_ended) return showProgress(progressText());
  if (!scan_->error().empty())
    return stop(QString("This was not measured: %1.").arg(QString::fromStdString(scan_->error())));
  timer_.stop();
  scan_.reset();
  showProgress({});
}

QString ScanActions::progressText() const {
  const std::int64_t step = scan_->next_step(), last = scan_->last_step();
  if (scan_->passes() > 0)
    return QString("%1: %2 of %3 passes.")
        .arg(last >= 0 ? QString("%1 at step %2").arg(what_).arg(step) : what_)
        .arg(scan_->passes_done())
        .arg(scan_->passes());
  return last >= 0 ? QString("A copy of %1 trains up to step %2: at step %3.").arg(run_).arg(last).arg(step)
                   : QString("%1: reading the model.").arg(what_);
}

}  // namespace moescope
