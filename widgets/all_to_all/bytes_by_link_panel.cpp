#include "widgets/all_to_all/bytes_by_link_panel.h"

#include <cmath>

#include "widgets/all_to_all/link_bars.h"
#include "widgets/panel/csv.h"

namespace moescope {
namespace {

QString payloadName(Payload payload) {
  return QString::fromUtf8(payload_name(payload)).toUpper();
}

// "\u221248.4 %": change against the standard all-to-all in BF16.
QString changeText(double change) {
  return (change > 0 ? QStringLiteral("+") : QString::fromUtf8("\u2212")) + formatPercent(std::abs(change));
}

// "36.1 % fewer bytes".
QString changeInWords(double change) {
  if (change == 0) return QString("as many bytes");
  return QString(change < 0 ? "%1 fewer bytes" : "%1 more bytes").arg(formatPercent(std::abs(change)));
}

}  // namespace

BytesByLinkPanel::BytesByLinkPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Bytes by link", Provenance::counted, parent) {
  showAnswers();
  plot_ = new BandBars(this);
  plot_->setFormatter([](double bytes) { return formatBytes(bytes); });
  plot_->setLegend(linkLegend());
  plot_->refill = [this] { refill(); };
  plot_->describe = [this](int row) { return describe(row); };
  followSelection(plot_);
  addControl(new LayerCombo(selection, this));
  addBody(plot_);
}

void BytesByLinkPanel::refill() {
  lines_.clear();
  const History* history = selection_->history();
  if (!hasSteps(plot_)) return;
  const auto frame = selection_->frame();
  const VolumeFrame* volume = volumeOf(frame.get(), selection_->layer());
  if (!volume) return plot_->setNotice(notInLogNotice(history->info(), "copies between ranks"));
  plot_->setNotice({});
  plot_->setCaption("bytes of a dispatch on all links; %: change from standard BF16");
  std::vector<BandBars::Row> rows;
  double standard = 0;
  for (const AllToAll way : {AllToAll::standard, AllToAll::deep_ep}) {
    const LinkCopies copies = total(copies_by_link(*volume, way));
    for (const Payload payload : {Payload::bf16, Payload::fp8, Payload::mxfp8}) {
      const auto each = static_cast<double>(bytes_per_token(payload, history->info().dim));
      const Line line{way, payload, each * static_cast<double>(copies.network_out),
                      each * static_cast<double>(copies.nvlink_out)};
      const double sum = line.network + line.nvlink;
      if (lines_.empty()) standard = sum;
      const QString change = standard > 0 && !lines_.empty() ? changeText(sum / standard - 1) : QString();
      rows.push_back(linkBar(wayName(way) + QLatin1Char(' ') + payloadName(payload), line.network, line.nvlink,
                             formatBytes(sum) + QLatin1Char('\t') + change));
      lines_.push_back(line);
    }
  }
  plot_->setRows(std::move(rows));
}

QStringList BytesByLinkPanel::describe(int row) const {
  if (row < 0 || row >= static_cast<int>(lines_.size())) return {};
  const Line& line = lines_[row];
  return {wayName(line.way) + QLatin1Char(' ') + payloadName(line.payload),
          QString("between nodes: %1").arg(formatBytes(line.network)),
          QString("inside nodes: %1").arg(formatBytes(line.nvlink)),
          QString("on all links: %1").arg(formatBytes(line.network + line.nvlink))};
}

QString BytesByLinkPanel::status() const {
  const auto frame = selection_->frame();
  if (!frame) return {};
  QStringList parts{timeStatus(frame->step, true), rowWidth(*selection_->history())};
  parts.removeAll(QString());
  return parts.join(QStringLiteral(", "));
}

Panel::Answer BytesByLinkPanel::answer() const {
  const auto frame = selection_->frame();
  const VolumeFrame* volume = volumeOf(frame.get(), selection_->layer());
  if (!volume) return {};
  const LinkCopies standard = total(copies_by_link(*volume, AllToAll::standard));
  const LinkCopies lean = total(copies_by_link(*volume, AllToAll::deep_ep));
  const auto network = static_cast<double>(standard.network_out),
             all = network + static_cast<double>(standard.nvlink_out);
  const QString question = "How many bytes cross nodes?";
  if (!(all > 0)) return {question, {"None: every token stays on its rank"}};
  if (!(network > 0)) return {question, {"None: all ranks are in one node"}};
  const QString share = std::abs(network / all - 0.5) < 0.02 ? QString("Half") : formatPercent(network / all);
  const QString crosses = QString("%1 of the bytes cross nodes").arg(share);
  const auto lean_network = static_cast<double>(lean.network_out);
  const QString between =
      crosses + QString("; DeepEP: %1 between nodes").arg(changeInWords(lean_network / network - 1));
  const double on_all = (lean_network + static_cast<double>(lean.nvlink_out)) / all - 1;
  return {question, {between + QString(", %1 on all links").arg(changeInWords(on_all)), between, crosses}};
}

QString BytesByLinkPanel::csv() const {
  QString text = QStringLiteral("layer,all-to-all,payload,network [bytes],NVLink [bytes]\n");
  for (const Line& line : lines_)
    text += csvRow(selection_->layer(), wayName(line.way), payloadName(line.payload),
                   QString::number(line.network, 'f', 0), QString::number(line.nvlink, 'f', 0));
  return text;
}

}  // namespace moescope
