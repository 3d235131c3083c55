#include "app/workspaces/workspaces.h"

#include <QAction>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QResizeEvent>
#include <QTimer>
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "app/look/icons.h"
#include "app/workspaces/compare_workspace.h"
#include "app/workspaces/workspace.h"
#include "core/files/assets.h"
#include "core/frame/frame.h"
#include "widgets/all_to_all/all_to_all_panel.h"
#include "widgets/all_to_all/expert_placement_panel.h"
#include "widgets/cluster/deepep_gain_panel.h"
#include "widgets/cluster/this_imbalance_panel.h"
#include "widgets/cluster/time_of_a_step_panel.h"
#include "widgets/compare/gradient_error_panel.h"
#include "widgets/compare/loss_gap_panel.h"
#include "widgets/compare/verdict_strip.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/microscaling/block_microscope_panel.h"
#include "widgets/microscaling/block_scale_map_panel.h"
#include "widgets/microscaling/block_scales_panel.h"
#include "widgets/microscaling/operand_costs_panel.h"
#include "widgets/microscaling/quantization_error_panel.h"
#include "widgets/microscaling/tensor_lab.h"
#include "widgets/microscaling/tensors_panel.h"
#include "widgets/microscaling/what_if_panel.h"
#include "widgets/overview/health_banner.h"
#include "widgets/overview/loss_panel.h"
#include "widgets/panel/verdict_line.h"
#include "widgets/router/balance_panel.h"
#include "widgets/router/expert_bias_over_time_panel.h"
#include "widgets/router/expert_load_panel.h"
#include "widgets/router/expert_panel.h"
#include "widgets/router/router_confidence_and_losses_panel.h"
#include "widgets/selection/compared_runs.h"
#include "widgets/text/coactivation_panel.h"
#include "widgets/text/routing_stability_panel.h"
#include "widgets/text/specialisation_panel.h"
#include "widgets/text/tokens_and_sample_panel.h"

namespace moescope {
AllToAllWorkspace::AllToAllWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "All-to-all", parent) {
  matrix_ = addDock(new AllToAllPanel(selection_), "dock_a2a_matrix");
  placement_panel_ = new ExpertPlacementPanel(selection_);
  placement_ = addDock(placement_panel_, "dock_a2a_placement");
  setEssential({matrix_});
  setLeastRow(180);
  arrange();
  foldWithout(matrix_, copiesMissing);
  foldWithout(placement_, loadsMissing);
}

void AllToAllWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, matrix_);
  tabifyDockWidget(matrix_, placement_);
  for (QDockWidget* dock : docks()) dock->show();
  matrix_->raise();
}

namespace {

constexpr double kErrorShare = 0.64, kErrorHeightShare = 0.46;  // shares of width and height
constexpr int kLowPage = 620;                                   // height below which the microscope has more of it

}  // namespace

MicroscalingWorkspace::MicroscalingWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "Microscaling", parent) {
  tensor_lab_ = new TensorLab(selection_, this);
  connect(tensor_lab_, &TensorLab::readoutChanged, this, &Workspace::readoutChanged);
  addOverPanels(tensor_lab_->verdict());
  QAction* find = tensor_lab_->browser()->filter()->addAction(QIcon(), QLineEdit::LeadingPosition);
  followPalette(this, [this, find] {
    find->setIcon(picturePixmap(Picture::search, palette().color(QPalette::PlaceholderText)));
  });
  error_ = addDock(new QuantizationErrorPanel(selection_), "dock_micro_quant_error");
  costs_ = addDock(new OperandCostsPanel(selection_), "dock_micro_operand_costs");
  tensors_ = addDock(tensor_lab_->browser(), "dock_micro_tensors");
  what_if_ = addDock(tensor_lab_->whatIf(), "dock_micro_what_if");
  auto* scales = new BlockScalesPanel(selection_);
  connect(tensor_lab_, &TensorLab::blockShown, scales, [this, scales] { scales->setLosses(tensor_lab_->losses()); });
  scales_ = addDock(scales, "dock_micro_scales");
  map_ = addDock(tensor_lab_->map(), "dock_micro_map");
  microscope_ = addDock(tensor_lab_->microscope(), "dock_micro_microscope");
  setEssential({error_, microscope_});
  setLeastRow(222);  // the microscope has a row of its table below the cards
  arrange();
  const auto tensor_missing = [this](const History& run) {
    const bool may_capture = run_origin(run.info()) == RunOrigin::checkpoint || !tensor_lab_->tensorName().isEmpty();
    return may_capture ? QString() : quantizationMissing(run);
  };
  const auto model_missing = [](const History& run) {
    if (run_origin(run.info()) == RunOrigin::checkpoint) return QString();
    return run_origin(run.info()) == RunOrigin::log ? QString("model of the run") : quantizationMissing(run);
  };
  for (QDockWidget* dock : {error_, scales_}) foldWithout(dock, quantizationMissing, true);
  for (QDockWidget* dock : {tensors_, what_if_, map_}) foldWithout(dock, tensor_missing, true);
  foldWithout(costs_, model_missing, true);
  connect(selection_, &Selection::dataChanged, this, &MicroscalingWorkspace::bringUpError);
}

// Splits docks before it tabs them, since splitting takes a dock out of its tab group.
void MicroscalingWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, error_);
  splitDockWidget(error_, microscope_, Qt::Vertical);
  splitDockWidget(error_, scales_, Qt::Horizontal);
  for (QDockWidget* dock : {costs_, tensors_, what_if_}) tabifyDockWidget(error_, dock);
  tabifyDockWidget(scales_, map_);
  for (QDockWidget* dock : docks()) dock->show();
  error_->raise();
  scales_->raise();
  shown_ = {};
  bringUpError();
}

// When a run is opened, brings the quantization error of its operands and their scales to the front. For a checkpoint,
// which quantizes nothing, brings the costs that formats would have. A tensor that is open stays in front.
void MicroscalingWorkspace::bringUpError() {
  const History* history = selection_->history();
  if (isFolded(error_) && selection_->quantFrame()) foldAnew();  // formats were changed while the run trains
  if (!history || !tensor_lab_->tensorName().isEmpty()) return;
  QDockWidget* first = error_->isHidden() ? costs_ : error_;
  if (first->isHidden()) first = tensors_;
  // The panels of a new run may appear after its first data, so that the choice is part of what was shown.
  if (const std::pair shown{history, first}; std::exchange(shown_, shown) == shown) return;
  for (QDockWidget* dock : {first, scales_})
    if (!dock->isHidden()) dock->raise();
}

void MicroscalingWorkspace::setDefaultSizes() {
  const int left_width = qRound(kErrorShare * width()),
            upper = qRound((height() < kLowPage ? 0.38 : kErrorHeightShare) * height());
  resizeDocks({error_, scales_}, {left_width, width() - left_width}, Qt::Horizontal);
  resizeDocks({error_, microscope_}, {upper, height() - upper}, Qt::Vertical);
}

bool MicroscalingWorkspace::foldsWithoutRun() const {
  return tensor_lab_->tensorName().isEmpty();
}

void MicroscalingWorkspace::showTensors() {
  for (QDockWidget* dock : {what_if_, tensors_, map_, microscope_}) bringIntoView(dock);
}

namespace {

constexpr double kRightShare = 0.34;  // share of the width for findings, layers and the panel of the selected expert
constexpr int kMinRightWidth = 300, kMaxRightWidth = 480;
// A panel of figures of this height shows its plot; three rows and the line of folded panels fit in a window of
// 1024 x 700.
constexpr int kMinCurvesHeight = 160;

template <auto member>
bool hasAny(const RouterFrame& router) {
  return !(router.*member).empty();
}

Workspace::Missing unlessAnyRouter(bool (*has)(const RouterFrame&), const char* what) {
  return [has, what](const History& run) { return routersMissing(run, has, what); };
}

}  // namespace

RouterWorkspace::RouterWorkspace(Selection* selection, FindingsWatch* findings, QWidget* parent)
    : Workspace(selection, "Router", parent) {
  load_ = addDock(new ExpertLoadPanel(selection_), "dock_router_load");
  load_over_time_ = addDock(new ExpertLoadPanel(selection_, ExpertLoadPanel::one_layer), "dock_router_load_over_time");
  balance_ = addDock(new BalancePanel(selection_), "dock_router_balance");
  bias_ = addDock(new ExpertBiasOverTimePanel(selection_), "dock_router_bias");
  auto* confidence = new RouterConfidenceAndLossesPanel(selection_);
  confidence_ = addDock(confidence, "dock_router_confidence");
  confidence->setMinimumHeight(kMinCurvesHeight);
  findings_ = addFindings(findings, "dock_router_findings");
  card_panel_ = new ExpertPanel(selection_);
  card_ = addDock(card_panel_, "dock_router_expert");
  addVerdict(findings);
  setEssential({load_, load_over_time_, bias_, balance_});
  setLeastRow(kMinCurvesHeight);
  arrange();
  foldWithout(bias_, unlessAnyRouter(hasAny<&RouterFrame::expert_bias>, "expert bias"));
  foldWithout(confidence_, [confidence](const History& run) {
    return confidence->hasFigures(run) ? QString() : QString("router losses");
  });
  connect(selection_, &Selection::focusChanged, this, &RouterWorkspace::showCardOfChosen);
}

// When another expert is selected, brings its panel to the front, even if the panel was closed.
void RouterWorkspace::showCardOfChosen() {
  const int before = std::exchange(shown_expert_, selection_->expert());
  if (shown_expert_ == before) return;
  const bool was_shown = card_->isVisibleTo(this);
  card_->setVisible(shown_expert_ >= 0);
  const bool is_other = was_shown != (shown_expert_ >= 0);
  if (card_->isFloating()) return;
  QTimer::singleShot(0, this, [this, is_other] {  // a dock that was hidden has a tab then
    if (is_other) applySizes();
    if (shown_expert_ < 0) return;
    card_->lower();  // else raise() does nothing for the dock that is taken for the top one
    card_->raise();
  });
}

void RouterWorkspace::hideWhatNeedsAChoice() {
  if (selection_->expert() < 0) card_->hide();
}

// Arranges the default layout: the load at the left; findings, balance and the selected expert at the right; panels
// that explain the load as tabs beside it. Splits docks before it tabs them, since splitting takes a dock out of its
// tab group.
void RouterWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, load_);
  splitDockWidget(load_, findings_, Qt::Horizontal);
  splitDockWidget(load_, load_over_time_, Qt::Vertical);
  splitDockWidget(findings_, balance_, Qt::Vertical);
  splitDockWidget(balance_, card_, Qt::Vertical);
  tabifyDockWidget(load_over_time_, bias_);
  tabifyDockWidget(card_, confidence_);
  for (QDockWidget* dock : docks()) dock->setVisible(dock != card_ || selection_->expert() >= 0);
  load_over_time_->raise();
  balance_->raise();
  confidence_->raise();
  card_->raise();
}

void RouterWorkspace::setDefaultSizes() {
  const int right = std::clamp(static_cast<int>(width() * kRightShare), kMinRightWidth, kMaxRightWidth);
  resizeDocks({load_, findings_}, {width() - right, right}, Qt::Horizontal);
  const int room = height() - menuWidget()->height();  // below the verdict
  resizeDocks({load_, load_over_time_}, {room * 5 / 8, room * 3 / 8}, Qt::Vertical);
  QDockWidget* lowest = card_->isVisibleTo(this) ? card_ : confidence_;
  // In a window of 1024 x 700 this leaves room for the curves of both panels of figures.
  resizeDocks({findings_, balance_, lowest}, {room / 3, room / 3, room / 3}, Qt::Vertical);
}

TextWorkspace::TextWorkspace(Selection* selection, QWidget* parent) : Workspace(selection, "Text", parent) {
  tokens_panel_ = new TokensAndSamplePanel(selection_, TokensAndSamplePanel::Shows::probe_and_data);
  connect(tokens_panel_, &TokensAndSamplePanel::probeWanted, this, &TextWorkspace::probeWanted);
  tokens_ = addDock(tokens_panel_, "dock_text_tokens");
  sample_ = addDock(new TokensAndSamplePanel(selection_, TokensAndSamplePanel::Shows::sample), "dock_text_sample");
  specialisation_ = addDock(new SpecialisationPanel(selection_), "dock_text_specialisation");
  coactivation_ = addDock(new CoactivationPanel(selection_), "dock_text_coactivation");
  stability_ = addDock(new RoutingStabilityPanel(selection_), "dock_text_stability");
  setEssential({tokens_, coactivation_, specialisation_});
  setCentralWidget(makeNextSteps());
  centralWidget()->hide();
  arrange();
  foldWithout(tokens_, [](const History& run) {
    return textsMissing(run, TextKind::probe).isEmpty() ? QString() : textsMissing(run, TextKind::batch);
  });
  foldWithout(sample_, [](const History& run) { return textsMissing(run, TextKind::sample); });
  foldWithout(stability_, [](const History& run) { return textsMissing(run, TextKind::probe); });
  for (QDockWidget* dock : {specialisation_, coactivation_})  // Co-activation maps the experts by domain, too
    foldWithout(dock, [](const History& run) {
      return run.specialisation_frame_at(INT64_MAX) ? QString() : QString("domains by expert");
    });
}

QWidget* TextWorkspace::makeNextSteps() {
  auto* page = new QWidget;
  auto* grid = new QGridLayout(page);
  grid->setVerticalSpacing(kSpace16);
  auto* text = new QLabel(QString::fromUtf8(asset("panels/text_next_steps.html")));
  auto* model = new QPushButton("Train or open a model");
  model->setProperty(kPrimaryProperty, true);
  auto* read = new QPushButton("What was read");
  connect(model, &QPushButton::clicked, this, &TextWorkspace::modelWanted);
  connect(read, &QPushButton::clicked, this, &Workspace::accountWanted);
  auto* row = plainRow(kSpace8);
  for (QPushButton* button : {model, read}) row->addWidget(button);
  row->addStretch(1);
  grid->addWidget(text, 1, 1);
  grid->addLayout(row, 2, 1);
  for (const int outer : {0, 2}) grid->setColumnStretch(outer, 1);
  grid->setRowStretch(0, 1);
  grid->setRowStretch(3, 2);
  return page;
}

// Arranges the default layout: the text above, the specialisation of the experts below.
void TextWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, tokens_);
  splitDockWidget(tokens_, specialisation_, Qt::Vertical);
  splitDockWidget(tokens_, sample_, Qt::Horizontal);
  splitDockWidget(specialisation_, coactivation_, Qt::Horizontal);
  tabifyDockWidget(sample_, stability_);
  for (QDockWidget* dock : docks()) dock->show();
  sample_->raise();
}

void TextWorkspace::setDefaultSizes() {
  const int across = width(), down = height();
  resizeDocks({tokens_, specialisation_}, {down * 56 / 100, down * 44 / 100}, Qt::Vertical);
  resizeDocks({tokens_, sample_}, {across * 62 / 100, across * 38 / 100}, Qt::Horizontal);
  resizeDocks({specialisation_, coactivation_}, QList<int>(2, across / 2), Qt::Horizontal);
}

void TextWorkspace::setLive(bool live) {
  tokens_panel_->setEditable(live);
}

namespace {

// Lines of the table of DeepEP gain, and of the header of each panel.
constexpr int kGainLines = 9, kHeaderLines = 3;

}  // namespace

ClusterWorkspace::ClusterWorkspace(Selection* selection, QWidget* parent)
    : Workspace(selection, "Cluster", parent), step_time_panel_(new TimeOfAStepPanel(selection)) {
  step_time_ = addDock(step_time_panel_, "dock_cluster_step_time");
  auto* imbalance = new ThisImbalancePanel(selection_);
  live_cost_ = addDock(imbalance, "dock_cluster_live_cost");
  auto* gain = new DeepEPGainPanel(selection_);
  layers_ = addDock(gain, "dock_cluster_layers");
  auto* verdict = new VerdictLine(this);
  addOverPanels(verdict);
  const auto ask = [this, imbalance] { imbalance->setCluster(step_time_panel_->question()); };
  connect(step_time_panel_, &TimeOfAStepPanel::clusterChosen, imbalance, ask);
  ask();
  connect(imbalance, &ThisImbalancePanel::answerChanged, this, [this, verdict, imbalance, gain] {
    verdict->setVerdict(imbalance->headline(), imbalance->about());
    gain->setSteps(imbalance->choicesOfRuns(), step_time_panel_->question());
    if (std::exchange(cost_lines_, imbalance->lines()) != cost_lines_) applySizes();
  });
  setEssential({step_time_, layers_});
  setLeastRow(250);  // two rows fit in a window of 1024 x 700
  arrange();
}

void ClusterWorkspace::arrange() {
  addDockWidget(Qt::TopDockWidgetArea, step_time_);
  splitDockWidget(step_time_, live_cost_, Qt::Horizontal);
  splitDockWidget(live_cost_, layers_, Qt::Vertical);
  for (QDockWidget* dock : docks()) dock->show();
}

void ClusterWorkspace::setDefaultSizes() {
  resizeDocks({step_time_, live_cost_}, QList<int>(2, width() / 2), Qt::Horizontal);
  const int cost_lines = cost_lines_ + kHeaderLines, lines = cost_lines + kGainLines + kHeaderLines;
  const int cost = height() * cost_lines / lines;
  resizeDocks({live_cost_, layers_}, {cost, height() - cost}, Qt::Vertical);
}

namespace {

constexpr int kMinRow = 146, kMinRowOfColumn = 240;  // least height of a row of panels
constexpr double kLeftShare = 0.33;                  // share of the width
constexpr std::array kLeftShares{0.37, 0.31, 0.32};  // shares of the height: loss, all-to-all, quantization error
constexpr std::array kRightShares{0.6, 0.4};         // with forced balance: loss gap, gradient error
// Shares of the height in one column; the second panel is the expert load.
constexpr std::array kColumnShares{0.2, 0.4, 0.2, 0.2};

}  // namespace

Overview::Overview(Selection* selection, FindingsWatch* findings, const CompareWorkspace& compare, QWidget* parent)
    : Workspace(selection, "Overview", parent) {
  loss_ = addDock(new LossPanel(selection_), "dock_loss");
  expert_load_ = addDock(new ExpertLoadPanel(selection_, ExpertLoadPanel::over_time), "dock_expert_load");
  all_to_all_ = addDock(new AllToAllPanel(selection_), "dock_all_to_all");
  quant_error_ = addDock(new QuantizationErrorPanel(selection_), "dock_quant_error");
  gap_ = addDock(new LossGapPanel(selection_, compare.judged()), "dock_overview_gap");
  gradient_ = addDock(new GradientErrorPanel(selection_), "dock_overview_gradient");
  for (QDockWidget* dock : {gap_, gradient_}) dock->widget()->setProperty("shows_all_runs", true);
  addVerdict(findings)->addTiles();
  auto* strip = compare.makeStrip(findings);
  for (auto signal : {&VerdictStrip::runWanted, &VerdictStrip::twinRequested, &VerdictStrip::forcedBalanceRequested,
                      &VerdictStrip::seedsRequested})
    connect(strip, signal, compare.strip(), signal);
  connect(strip, &VerdictStrip::stepsRequested, compare.strip(), &VerdictStrip::stepsRequested);
  connect(selection_, &Selection::dataChanged, strip,
          [this, strip] { strip->setVisible(comparesForced(*selection_)); });
  strip->hide();
  addOverPanels(strip);
  setEssential({expert_load_, loss_, quant_error_});
  arrange();
  const auto unforced = [this](const QString& missing) {
    return comparesForced(*selection_) ? QString("choices of experts (balance is forced)") : missing;
  };
  foldWithout(
      expert_load_, [unforced](const History&) { return unforced({}); }, true);
  foldWithout(
      all_to_all_,
      [unforced](const History& run) { return unforced(run.info().config_toml.empty() ? copiesMissing(run) : ""); },
      true);
  foldWithout(quant_error_, quantizationMissing, true);
}

bool Overview::isNarrow() const {
  return width() < kNarrowWindow;
}

// Splits docks before it tabs them, since splitting takes a dock out of its tab group.
void Overview::arrange() {
  setOneColumn(isVisible() && isNarrow());
  addDockWidget(Qt::TopDockWidgetArea, loss_);
  if (one_column_) {
    splitDockWidget(loss_, expert_load_, Qt::Vertical);
    splitDockWidget(expert_load_, all_to_all_, Qt::Vertical);
  } else {
    splitDockWidget(loss_, expert_load_, Qt::Horizontal);
    splitDockWidget(loss_, all_to_all_, Qt::Vertical);
  }
  splitDockWidget(all_to_all_, quant_error_, Qt::Vertical);
  splitDockWidget(expert_load_, gap_, Qt::Vertical);
  splitDockWidget(gap_, gradient_, Qt::Vertical);
  for (QDockWidget* dock : docks()) dock->setVisible(dock != gap_ && dock != gradient_);
}

void Overview::setDefaultSizes() {
  const auto share = [this](const QList<QDockWidget*>& docks, const auto& shares) {
    QList<int> heights;
    for (const double share : shares) heights << static_cast<int>(share * height());
    resizeDocks(docks, heights, Qt::Vertical);
  };
  if (one_column_) return share({loss_, expert_load_, all_to_all_, quant_error_}, kColumnShares);
  const int left_width = static_cast<int>(kLeftShare * width());
  resizeDocks({loss_, expert_load_->isHidden() ? gap_ : expert_load_}, {left_width, width() - left_width},
              Qt::Horizontal);
  share({loss_, all_to_all_, quant_error_}, kLeftShares);
  share({gap_, gradient_}, kRightShares);
}

// Only a comparison with forced balance folds the expert load.
bool Overview::useRoomOfFolded() {
  gap_->setVisible(isFolded(expert_load_));
  gradient_->setVisible(isFolded(expert_load_) && std::ranges::any_of(selection_->histories(), [](const auto& run) {
                          return run->gradient_frame_at(INT64_MAX) != nullptr;
                        }));
  return isFolded(expert_load_);
}

void Overview::setOneColumn(bool one_column) {
  one_column_ = one_column;
  setLeastRow(one_column_ ? kMinRowOfColumn : kMinRow);
  followWidth();
}

void Overview::resizeEvent(QResizeEvent* event) {
  Workspace::resizeEvent(event);
  followWidth();
}

// A layout may have been restored before the window is shown.
void Overview::showEvent(QShowEvent* event) {
  Workspace::showEvent(event);
  followWidth();
}

void Overview::followWidth() {
  if (isVisible() && one_column_ != isNarrow()) QTimer::singleShot(0, this, &Overview::arrangeForWidth);
}

// Shows one scrolling column in a narrow window. Docks that the user closed or floated stay closed or floating.
void Overview::arrangeForWidth() {
  if (one_column_ == isNarrow()) return;
  QList<QDockWidget*> closed, floating;
  for (QDockWidget* dock : docks()) {
    if (dock->isHidden()) closed << dock;
    if (dock->isFloating()) floating << dock;
  }
  arrangeAnew();
  for (QDockWidget* dock : floating) dock->setFloating(true);
  for (QDockWidget* dock : closed) dock->hide();
  foldAnew();
  applySizes();
}

}  // namespace moescope
