#include "widgets/cluster/time_of_a_step_panel.h"

#include <QStackedWidget>
#include <QStandardItemModel>
#include <cmath>
#include <utility>
#include <vector>

#include "core/cluster/step_model.h"
#include "widgets/cluster/layer_lanes.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/controls.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

using Fill = BandBars::Fill;
constexpr int kComputeColor = 0, kCommunicationColor = BandBars::kStrong, kRestColor = BandBars::kPlain;
constexpr int kBetweenLoadsMs = 1000;  // pause between the loads of two steps of a training

bool isCommunication(const StepPart& part) {
  const std::string_view name = part.name;
  return name.starts_with("all-to-all") || name == "DeepEP overhead" || name == "tensor parallelism";
}

int colorOf(const StepPart& part) {
  const std::string_view name = part.name;
  if (isCommunication(part)) return kCommunicationColor;
  return name == "rest" || name == "uneven stages" || name == "pipeline bubble" ? kRestColor : kComputeColor;
}

}  // namespace

TimeOfAStepPanel::TimeOfAStepPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Time of a step", Provenance::modelled, parent) {
  showAnswers();
  buildChoices();
  for (FittedLabel** label : {&note_, &split_}) {
    *label = new FittedLabel(this);
    (*label)->setRole(QPalette::PlaceholderText);
    followFont(*label, [shown = *label] { shown->setFont(typeFont(Type::caption)); });
  }
  addBody(note_, 0);
  addBody(split_, 0);
  plot_ = new BandBars(this);
  plot_->setCaption("ms per token and GPU");
  plot_->setFormatter([](double value) { return formatValue(value, 2); });
  plot_->setLegend({{"compute", kComputeColor, Fill::solid, false},
                    {"communication", kCommunicationColor, Fill::solid, false},
                    {"rest and pipeline", kRestColor, Fill::solid, false},
                    {"with a fitted number", kRestColor, Fill::hatched, false}});
  plot_->describe = [this](int row) {
    return answer_ && answer_->problem.empty() ? readout({std::string(answer_->time.parts.at(row).name)})
                                               : QStringList();
  };
  lanes_ = new LayerLanes(this);
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{plot_, lanes_}) plot->refill = [this] { refill(); };
  connect(selection_, &Selection::changed, this, &TimeOfAStepPanel::followRun);
  pause_.setSingleShot(true);
  pause_.setInterval(kBetweenLoadsMs);
  connect(&pause_, &QTimer::timeout, this, &TimeOfAStepPanel::markDirty);
  buildViews();
  followRun();
  chosen();
  for (QComboBox* box : {view_, hardware_, recipe_, way_, payload_, ep_}) keepState(box->accessibleName(), box);
  keepState(
      "routing", [this] { return routing_is_chosen_ ? QVariant(routing_->currentIndex()) : QVariant(); },
      [this](const QVariant& state) {
        routing_is_chosen_ = state.isValid();
        if (routing_is_chosen_) routing_->setCurrentIndex(state.toInt());
        followRun();
      });
}

void TimeOfAStepPanel::buildViews() {
  auto* views = new QStackedWidget(this);
  views->addWidget(plot_);
  views->addWidget(lanes_);
  addBody(views);
  view_ = makeChoice({"parts of the step", "a layer on every rank"}, "View");
  addControl(view_);
  connect(view_, &QComboBox::currentIndexChanged, this, [this, views](int view) {
    views->setCurrentIndex(view);
    markDirty();
    update();  // repaints the answer as well
  });
}

void TimeOfAStepPanel::markDirty() {
  plot_->markDirty();
  lanes_->markDirty();
}

// Adds a choice. It has no label, so its items say what they are.
QComboBox* TimeOfAStepPanel::addChoice(QLayout* row, const QString& name, const QStringList& items,
                                       const QString& tip) {
  auto* box = new FlatCombo(this);
  box->addItems(items);
  box->setAccessibleName(name);
  box->setToolTip(name + QStringLiteral(": ") + tip);
  row->addWidget(box);
  connect(box, &QComboBox::currentIndexChanged, this, [this] { chosen(); });
  return box;
}

void TimeOfAStepPanel::buildChoices() {
  auto* fields = new QWidget(this);
  auto* row = new FlowRow(fields);
  QStringList profiles;
  for (const HardwareProfile& profile : hardware_profiles()) profiles << QString::fromStdString(profile.name) + " GPUs";
  hardware_ = addChoice(row, "GPU", profiles, "hardware profile (assets/hardware)");
  recipe_ = addChoice(row, "Experts", {"BF16 experts", "MXFP8 experts"},
                      "format of the grouped GEMMs of the routed experts; MXFP4 and NVFP4 have no published speed");
  way_ = addChoice(row, "All-to-all", {"standard all-to-all", "DeepEP all-to-all"}, "kind of all-to-all");
  payload_ = addChoice(row, "Token format", {"BF16 tokens", "FP8 tokens", "MXFP8 tokens"},
                       "format of the rows in the all-to-all");
  ep_ = addChoice(row, "EP degree", {"EP 8", "EP 16", "EP 32", "EP 64", "EP 128"},
                  "expert-parallel ranks, in nodes of 8; that of Expert placement as well");
  connect(ep_, &QComboBox::currentTextChanged, this, [this] { emit degreeChosen(degree()); });
  buildRouting(row);
  addBody(fields, 0);
  // All other choices begin with their first item.
  const ClusterQuestion usual;
  hardware_->setCurrentText(QString::fromStdString(usual.hardware).toUpper() + " GPUs");
  recipe_->setCurrentIndex(usual.mxfp8);
  way_->setCurrentIndex(static_cast<int>(usual.all_to_all));
  setDegree(usual.ep);
}

void TimeOfAStepPanel::setDegree(int degree) {
  if (offers(degree)) ep_->setCurrentText(QString("EP %1").arg(degree));
}

void TimeOfAStepPanel::setPlacement(const PlacementChoice& placement) {
  shown_placement_ = placement;
  placement_->setCurrentIndex(static_cast<int>(placement.kind));
  chosen();
}

void TimeOfAStepPanel::buildRouting(QLayout* row) {
  routing_ = addChoice(row, "Routing", {"forced balance", "this router"},
                       "which experts tokens choose\n"
                       "forced balance: round-robin, the baseline of the published runs\n"
                       "this router: the load of the chosen layer and step, in order over the model's experts");
  connect(routing_, &QComboBox::activated, this, [this] { routing_is_chosen_ = true; });
  placement_ = addChoice(
      row, "Placement", {"experts in order", "experts in random order", "experts balanced", "experts by hand"},
      "which expert is on which rank, as in Expert placement\n"
      "balanced: the experts with the highest load get replicas, one more expert per rank, then all experts are packed "
      "by this step's load");
  static_cast<QStandardItemModel*>(placement_->model())->item(3)->setEnabled(false);  // made by dragging experts
  connect(placement_, &QComboBox::activated, this,
          [this] { emit placementChosen(QString::fromStdString(placement_choice_text(question().placement))); });
}

// A run with forced balance has the routing of the published runs.
void TimeOfAStepPanel::followRun() {
  const auto frame = selection_->frame();
  const RouterFrame* router = find_router(frame.get(), selection_->layer());
  const bool has_load = router && !router->tokens_per_expert.empty() &&
                        !selection_->history()->settings_at(frame->step)->holds(&RouterConfig::force_balance);
  const auto usual = static_cast<int>(has_load ? AskedRouting::live : AskedRouting::forced);
  if (!routing_is_chosen_ && routing_->currentIndex() != usual) return routing_->setCurrentIndex(usual);
  if (routing_->currentIndex() == static_cast<int>(AskedRouting::live)) markDirty();
}

ClusterQuestion TimeOfAStepPanel::question() const {
  ClusterQuestion q;
  q.hardware = hardware_->currentText().section(QLatin1Char(' '), 0, 0).toStdString();
  q.mxfp8 = recipe_->currentIndex() == 1;
  q.all_to_all = static_cast<AllToAll>(way_->currentIndex());
  q.payload = static_cast<Payload>(payload_->currentIndex());
  q.ep = degree();
  q.routing = static_cast<AskedRouting>(routing_->currentIndex());
  const PlacementChoice placement{static_cast<PlacementChoice::Kind>(placement_->currentIndex()), {}};
  q.placement = placement.kind == shown_placement_.kind ? shown_placement_ : placement;
  if (q.routing != AskedRouting::live) return q;
  const auto frame = selection_->frame();
  if (frame) q.loads = layer_loads(*frame, q.ep);
  // The step has all layers, and its text is about the fullest; the lanes are those of the selected layer.
  q.layer = showsLayer() ? selection_->layer() : q.loads.fullest();
  if (const RouterFrame* router = find_router(frame.get(), q.layer)) q.live_load = router->tokens_per_expert;
  return q;
}

void TimeOfAStepPanel::chosen() {
  if (!note_) return;  // the panel is still being built
  constexpr int kMxfp8 = 1;
  const bool has_mxfp8 = hardware_profile(question().hardware).has_mxfp8();
  static_cast<QStandardItemModel*>(recipe_->model())->item(kMxfp8)->setEnabled(has_mxfp8);
  if (!has_mxfp8 && recipe_->currentIndex() == kMxfp8) return recipe_->setCurrentIndex(0);
  markDirty();
  emit clusterChosen();
}

void TimeOfAStepPanel::refill() {
  const ClusterQuestion present_question = question();
  ClusterQuestion load_question = question_.value_or(present_question);
  load_question.live_load = present_question.live_load;
  load_question.loads = present_question.loads;
  const bool is_other =
      std::exchange(run_, selection_->history()) != selection_->history() || load_question != present_question;
  if (question_ != present_question) setProperty("busy", true);
  if (question_ != present_question && (is_other || !pause_.isActive())) {
    question_ = present_question;
    if (is_other) answer_.reset();  // an answer to another question is not shown
    ask();
  }
  plot_->setRows(answer_ ? barRows() : std::vector<BandBars::Row>());
  note_->setTexts(noteForms());
  split_->setTexts(splitForms());
  if (answer_) return plot_->setNotice(QString::fromStdString(answer_->problem));
  plot_->setNotice("Computing...");
  lanes_->setNotice(plot_->notice());
}

void TimeOfAStepPanel::ask() {
  pause_.start();
  worker_.compute(
      this, [question = *question_](const auto&) { return moescope::answer(question); },
      [this, question = *question_](const ClusterAnswer& result) {
        if (question == question_) show(result);
      });
}

void TimeOfAStepPanel::show(const ClusterAnswer& answer) {
  answer_ = answer;
  setProperty("busy", false);
  plot_->markDirty();
  lanes_->setAnswer(answer);
  update();  // repaints the answer as well
}

std::vector<BandBars::Row> TimeOfAStepPanel::barRows() const {
  std::vector<BandBars::Row> rows;
  for (const StepPart& part : answer_->time.parts) {
    const QStringList figures{formatValue(part.ms, 3) + QString(" ms"),
                              formatPercent(part.ms / answer_->time.ms_per_token),
                              part.kind == Provenance::modelled ? QString() : QString(provenance_name(part.kind))};
    const Fill fill = part.fitted.empty() ? Fill::solid : Fill::hatched;
    rows.push_back(
        {part.name, {{part.ms, colorOf(part), fill}}, std::nan(""), std::nan(""), figures.join(QLatin1Char('\t'))});
  }
  return rows;
}

QStringList TimeOfAStepPanel::splitForms() const {
  if (!answer_ || !answer_->problem.empty()) return {};
  const HardwareProfile& hardware = answer_->config.hardware;
  const bool is_repeated = answer_->time.duplication > 1;
  const QString ranks = QString("Assumed: %1each of the %2 TP ranks sends and computes %3")
                            .arg(is_repeated ? "with DeepEP " : "")
                            .arg(answer_->config.tp)
                            .arg(is_repeated ? "every token" : "its part of the tokens");
  if (hardware.has_mxfp8()) return {ranks + "; FP4 experts have no published speed", ranks + "; no FP4", ranks};
  const QString name = QString::fromStdString(hardware.name);
  return {ranks + QString("; experts in BF16, as %1s have no MXFP8").arg(name),
          ranks + QString("; no MXFP8 on %1s").arg(name), QString("Experts in BF16: no MXFP8 on %1s").arg(name)};
}

QStringList TimeOfAStepPanel::noteForms() const {
  if (!answer_ || !answer_->problem.empty()) return {};
  const std::size_t run_experts = question_->live_load.size(), experts = answer_->config.shape.n_experts;
  QString stretched;
  if (run_experts > 0 && run_experts != experts && has_own_ranks(*question_, to_int(experts)))
    stretched = QString(" as in All-to-all (each of the %1 experts for %2 of %3)")
                    .arg(run_experts)
                    .arg(experts / run_experts)
                    .arg(experts);
  else if (run_experts > 0 && run_experts != experts)
    stretched = QString(" (%1 experts stretched to %2; EP %3 does not divide them)")
                    .arg(run_experts)
                    .arg(experts)
                    .arg(question_->ep);
  if (question_->loads.layers > 1) stretched.prepend(QString(" in layer %1").arg(question_->layer));
  const QString fullest = QString("Fullest rank %1 \u00d7 the mean").arg(answer_->fullest_rank, 0, 'f', 2) + stretched;
  const QString network = fullest + QString("; network %1 per token").arg(formatBytes(answer_->time.network_bytes));
  // The load of a router does not say which experts a token uses together.
  const bool is_counted = question_->routing == AskedRouting::forced;
  const QString bytes =
      network + QString(", NVLink %1 (%2)")
                    .arg(formatBytes(answer_->time.nvlink_bytes), is_counted ? "counted" : "modelled from the load");
  return {bytes + QString("; some numbers are fitted"), bytes, network, fullest};
}

Panel::Answer TimeOfAStepPanel::answer() const {
  const QString question = "How long is a step?";
  if (!answer_) return {};
  if (!answer_->problem.empty()) return {{}, {QString::fromStdString(answer_->problem)}, true};
  if (showsLayer()) return {"How long do ranks wait?", lanes_->answers()};
  const StepConfig& config = answer_->config;
  const double tokens = static_cast<double>(config.seq) * config.microbatch_sequences * config.microbatches *
                        config.gpus / (config.tp * config.pp);
  const double speed_per_gpu = answer_->time.tokens_per_second;
  const QString length = QString("%1 s for %2 M tokens on %3 GPUs")
                             .arg(formatValue(tokens / (speed_per_gpu * config.gpus), 3), formatValue(tokens / 1e6, 3))
                             .arg(config.gpus);
  const QString per_gpu = QString("%1 tokens/s per GPU").arg(formatCount(std::round(speed_per_gpu)));
  const QString range =
      QString(", between %1 and %2")
          .arg(formatCount(std::round(answer_->band.low)), formatCount(std::round(answer_->band.high)));
  const QString load = question_->routing == AskedRouting::live ? ", " + question_->loads.text() : QString();
  const QString seconds = length.section(QStringLiteral(" for"), 0, 0);
  return {question,
          {length + ": " + per_gpu + range + load, length.section(QStringLiteral(" on"), 0, 0) + ": " + per_gpu + range,
           seconds + ": " + per_gpu + range, seconds + ": " + per_gpu, seconds}};
}

QString TimeOfAStepPanel::status() const {
  if (routing_->currentIndex() != static_cast<int>(AskedRouting::live)) return {};
  const auto frame = selection_->frame();
  if (!frame) return {};
  const QString run = selection_->histories().size() > 1 ? runLetter(*selection_, selection_->run()) + ", " : QString();
  const QString time = run + timeStatus(frame->step, true);
  return showsLayer() ? QString("layer %1, %2").arg(selection_->layer()).arg(time) : time;
}

ValueTable TimeOfAStepPanel::table() const {
  if (showsLayer()) return lanes_->table();
  ValueTable table({"part", "time [ms per token and GPU]", "share [share]", "kind", "fitted numbers in it", "how"});
  if (!answer_ || !answer_->problem.empty()) return table;
  const StepTime& time = answer_->time;
  for (const StepPart& part : time.parts)
    table.add(std::string(part.name), part.ms, part.ms / time.ms_per_token, std::string(provenance_name(part.kind)),
              part.fitted, part.how);
  const QString speed = QString("%1 tokens/s per GPU, between %2 and %3")
                            .arg(time.tokens_per_second, 0, 'f', 2)
                            .arg(answer_->band.low, 0, 'f', 2)
                            .arg(answer_->band.high, 0, 'f', 2);
  table.add(std::string("step"), time.ms_per_token, 1.0, std::string(provenance_name(Provenance::modelled)),
            time.fitted(), speed.toStdString());
  return table;
}

}  // namespace moescope
