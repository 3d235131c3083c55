#include "widgets/cluster/this_imbalance_panel.h"

#include <QHeaderView>
#include <QTimer>
#include <algorithm>

#include "core/telemetry/frame/kernel_names.h"
#include "widgets/cluster/published_and_modelled_panel.h"
#include "widgets/panel/metric_text.h"

namespace moescope {
namespace {

constexpr int kLeastPauseMs = 3000;  // between two answers while training goes on: they take a core for a while

StepConfig askedConfig() {
  return published_b200_config(true, AllToAll::deep_ep);
}

// That a GPU sends in a step, over all MoE layers, so that replicas' gradients are added up in BF16.
double replicaBytes(const LiveCost& cost) {
  const ModelShape shape = askedConfig().shape;
  const double expert = 3.0 * static_cast<double>(shape.row_dim() * shape.moe_inter) * 2;
  return cost.gradients_sent * expert * static_cast<double>(shape.n_moe_layers()) / cost.the_case.ep;
}

}  // namespace

ThisImbalancePanel::ThisImbalancePanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("This imbalance at 671B on 256 GPUs"), Provenance::modelled, parent) {
  hypothesis_ = new QComboBox(this);
  fillHypotheses(hypothesis_);
  hypothesis_->setCurrentIndex(static_cast<int>(Hypothesis::h2));
  addControl(hypothesis_);
  notice_ = new QLabel(this);
  notice_->setWordWrap(true);
  addBody(notice_, 0);
  table_ = new QTableWidget(0, kVariants + 2, this);
  table_->setHorizontalHeaderLabels({tr("EP"), tr("forced\nbalance"), tr("this\nrouter"), tr("node-\nlimited"),
                                     tr("balanced\nplacement"), tr("MXFP8\npayload"), tr("all\nthree")});
  table_->setAccessibleName(title());
  table_->verticalHeader()->hide();
  table_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionMode(QAbstractItemView::NoSelection);
  table_->setWordWrap(false);
  addBody(table_);
  for (auto signal : {&Selection::dataChanged, &Selection::timeChanged, &Selection::focusChanged})
    connect(selection_, signal, this, [this] { renew(); });
  connect(hypothesis_, &QComboBox::currentIndexChanged, this, [this] {
    since_.invalidate();
    renew();
  });
}

void ThisImbalancePanel::setHypothesis(Hypothesis hypothesis) {
  hypothesis_->setCurrentIndex(static_cast<int>(hypothesis));
}

void ThisImbalancePanel::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  renew();
}

void ThisImbalancePanel::say(const QString& notice) {
  notice_->setText(notice);
}

// One answer at a time, and a pause between two: while training goes on a new load comes with every step.
void ThisImbalancePanel::renew() {
  if (!isVisible() || computing_) return;
  setProperty("busy", false);
  const History* history = selection_->history();
  if (!history) return say(noRunNotice());
  if (history->steps().empty()) return say(noDataYetNotice());
  const auto frame = selection_->frame();
  Asked now{{},
            static_cast<Hypothesis>(hypothesis_->currentIndex()),
            frame ? frame->step : -1,
            selection_->layer(),
            QString::fromStdString(multiplied_by(history->info()))};
  if (frame) {
    const auto router = std::ranges::find(frame->routers, selection_->layer(), &RouterFrame::layer);
    if (router != frame->routers.end()) now.load = router->tokens_per_expert;
  }
  if (now.load.empty()) return say(notInLogNotice(history->info(), tr("tokens per expert")));
  if (now == asked_) return;
  setProperty("busy", true);
  if (since_.isValid() && since_.elapsed() < kLeastPauseMs) {
    if (!std::exchange(waiting_, true))
      QTimer::singleShot(kLeastPauseMs - static_cast<int>(since_.elapsed()), this, [this] {
        waiting_ = false;
        renew();
      });
    return;
  }
  asked_ = now;
  computing_ = true;
  worker_.start([this, now](std::stop_token stopped) {
    const StepConfig config = askedConfig();
    std::vector<LiveCost> costs = live_costs(config, now.hypothesis, now.load, live_cases(config));
    if (stopped.stop_requested()) return;
    QMetaObject::invokeMethod(
        this, [this, now, costs = std::move(costs)] { show(costs, now); }, Qt::QueuedConnection);
  });
}

void ThisImbalancePanel::show(std::vector<LiveCost> costs, const Asked& of) {
  costs_ = std::move(costs);
  shown_ = of;
  computing_ = false;
  update();  // the header, too: it says of which step
  setProperty("busy", false);
  since_.start();
  const int rows = static_cast<int>(costs_.size()) / kVariants;
  table_->setRowCount(rows);
  const auto put = [this](int row, int column, const QString& text, const QString& tip, bool strong) {
    auto* item = new QTableWidgetItem(text);
    item->setTextAlignment(Qt::AlignCenter);
    item->setToolTip(tip);
    QFont font = item->font();
    font.setBold(strong);
    item->setFont(font);
    table_->setItem(row, column, item);
  };
  for (int row = 0; row < rows; ++row) {
    const LiveCost* first = &costs_[static_cast<std::size_t>(row) * kVariants];
    put(row, 0, QString::number(first->the_case.ep), tr("expert-parallel ranks, in nodes of 8"), true);
    put(row, 1, QString::number(first->forced_tokens_per_second, 'f', 0),
        tr("forced round-robin, experts in order, BF16 payload"), false);
    const LiveCost* best = std::max_element(first, first + kVariants, [](const LiveCost& a, const LiveCost& b) {
      return a.tokens_per_second < b.tokens_per_second;
    });
    for (int v = 0; v < kVariants; ++v) {
      const LiveCost& cost = first[v];
      const double change = cost.tokens_per_second / first->forced_tokens_per_second - 1;
      QString tip =
          tr("modelled %1 tokens/s/GPU, band %2-%3\nexperts of the fullest rank: %4 x the mean\n"
             "%5 copies a token, %6 over the network")
              .arg(QString::number(cost.tokens_per_second, 'f', 0), QString::number(cost.band.low, 'f', 0),
                   QString::number(cost.band.high, 'f', 0), formatValue(cost.traffic.expert_rows_max_over_mean, 3),
                   formatValue(cost.traffic.copies_per_token, 3), formatValue(cost.traffic.network, 3));
      if (cost.gradients_sent > 0)
        tip += tr("\nnot in it: replicas send home the gradients of %1 experts a layer and step,\n%2 a GPU in BF16")
                   .arg(cost.gradients_sent)
                   .arg(formatBytes(replicaBytes(cost)));
      put(row, v + 2,
          QStringLiteral("%1 (%2%3 %)")
              .arg(QString::number(cost.tokens_per_second, 'f', 0), change >= 0 ? QStringLiteral("+") : QString())
              .arg(100 * change, 0, 'f', 0),
          tip, &cost == best);
    }
  }
  say(tr("tokens/s/GPU and the change against forced balance; MXFP8 experts, DeepEP. The load of layer %1 at step %2 "
         "is %3; the cost is modelled, with fitted numbers.")
          .arg(of.layer)
          .arg(formatCount(static_cast<double>(of.step)), measuredWhere(selection_->history())) +
      (of.units.isEmpty() ? QString() : tr(" The run's GEMMs: %1.").arg(of.units)));
  renew();  // there may be a new load by now
}

QString ThisImbalancePanel::status() const {
  if (costs_.empty()) return {};
  return tr("layer %1, step %2").arg(shown_.layer).arg(formatCount(static_cast<double>(shown_.step)));
}

QString ThisImbalancePanel::csv() const {
  QString text = QStringLiteral(
      "step,layer,EP,node-limited,balanced placement,payload,modelled [tokens/s/GPU],band low,band high,forced "
      "balance [tokens/s/GPU],lost (share),experts max/mean,copies per token\n");
  for (const LiveCost& cost : costs_)
    text += QStringLiteral("%1,%2,%3,%4,%5,%6,")
                .arg(shown_.step)
                .arg(shown_.layer)
                .arg(cost.the_case.ep)
                .arg(cost.the_case.node_limited)
                .arg(cost.the_case.balanced)
                .arg(QString::fromUtf8(payload_name(cost.the_case.payload))) +
            QStringLiteral("%1,%2,%3,%4,%5,%6,%7\n")
                .arg(cost.tokens_per_second, 0, 'f', 2)
                .arg(cost.band.low, 0, 'f', 2)
                .arg(cost.band.high, 0, 'f', 2)
                .arg(cost.forced_tokens_per_second, 0, 'f', 2)
                .arg(cost.lost(), 0, 'g', 6)
                .arg(cost.traffic.expert_rows_max_over_mean, 0, 'g', 6)
                .arg(cost.traffic.copies_per_token, 0, 'g', 6);
  return text;
}

QString ThisImbalancePanel::explain() const {
  return tr("<p><b>What the load of this session's router would cost DeepSeek-V3 671B on 256 B200s.</b> How unequal "
            "the load of the chosen layer is, is %1. It is stretched to 256 experts (its sorted utilisations as a "
            "quantile function), 65,536 tokens are routed by it, their copies are counted, and the step model of this "
            "workspace turns them into tokens/s/GPU. All of that is modelled, with the numbers fitted to the published "
            "runs. What multiplied the run's matrices (AMX, AVX-512 BF16 or OpenBLAS) is named as its recording names "
            "it; the cost is that of B200s all the same.</p><p><i>forced balance</i>: round-robin, as in the published "
            "runs. <i>node-limited</i>: a token stays within 4 of 8 groups of experts. <i>balanced placement</i>: the "
            "heaviest experts get replicas and experts are packed by this load, one more slot per rank; adding up the "
            "replicas' gradients is not in the figure, its bytes are in the cell's tooltip, and what a plan from "
            "earlier steps evens out is shown by Expert placement (All-to-all). <i>MXFP8 "
            "payload</i>: the dispatch sends E4M3 with E8M0 scales. Percentages are relative to forced balance of the "
            "same EP degree with a BF16 payload, so a smaller payload can be above it. Bold: the best of a row. Point "
            "at a cell for band and traffic.</p>")
      .arg(measuredWhere(selection_->history()));
}

}  // namespace moescope
