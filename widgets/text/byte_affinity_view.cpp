#include "widgets/text/byte_affinity_view.h"

#include <QPainter>
#include <algorithm>

#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/panel/byte_text.h"
#include "widgets/text/specialisation_panel.h"

namespace moescope {

QSize ByteStrip::boxSize() const {
  const QFontMetrics metrics(font());
  return {std::max(24, metrics.horizontalAdvance(QStringLiteral("00.0")) + 4), plotRect().height()};
}

void ByteStrip::paintData(QPainter& painter) {
  const QFontMetrics metrics(painter.font());
  painter.setPen(palette().text().color());
  // Leaves out the part in brackets if it does not fit.
  painter.drawText(QRect(0, 0, width(), metrics.height() + 2), Qt::AlignVCenter,
                   fittingText({title_, title_.section(QStringLiteral(" ("), 0, 0)}, metrics, width()));
  const QSize box = boxSize();
  const Lut lut = utilisationLut(dark());
  const QFont letters = scaledFont(formulaFont(font()), 1.2);
  const QFont usual = painter.font();
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const QRect place(plotRect().left() + to_int(i) * box.width(), plotRect().top(), box.width() - 2, box.height());
    if (place.right() > plotRect().right()) break;
    const QRgb color = lut[utilisationCode(bytes_[i].lift)];
    painter.fillRect(place, color);
    painter.setPen(textOn(color));
    const int half_height = std::min(metrics.height(), place.height() / 2);
    painter.setFont(letters);
    painter.drawText(place.adjusted(0, 0, 0, -half_height), Qt::AlignCenter,
                     byteGlyph(static_cast<std::uint8_t>(bytes_[i].kind)));
    painter.setFont(usual);
    painter.drawText(place.adjusted(0, place.height() - half_height, 0, 0), Qt::AlignCenter,
                     QString::number(bytes_[i].lift, 'f', bytes_[i].lift < 9.95f ? 1 : 0));
  }
}

QStringList ByteStrip::readoutAt(QPoint position) const {
  if (!plotRect().contains(position)) return {};
  const std::size_t index = (position.x() - plotRect().left()) / boxSize().width();
  if (index >= bytes_.size()) return bytes_.empty() ? QStringList{title_} : QStringList{};
  return {QString("%1, %2 \u00d7 the expert's share of all tokens")
              .arg(byteName(static_cast<std::uint8_t>(bytes_[index].kind)), formatValue(bytes_[index].lift, 3)),
          QString("%1 of the expert's tokens").arg(formatPercent(bytes_[index].share))};
}

ByteAffinityView::ByteAffinityView(Selection* selection, QWidget* parent) : QWidget(parent), selection_(selection) {
  view_ = new MatrixPlot(this);
  view_->setAccessibleName("Kinds of bytes by expert");
  view_->setLegendElsewhere();
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  view_->setWeights(utilisationWeights());
  view_->setHatched(kZeroLoadCode);
  strip_ = new ByteStrip(this);
  strip_->setAccessibleName("Bytes of the chosen expert");
  strip_->refill = [this] { refillStrip(); };
  followFont(strip_, [this] { strip_->setFixedHeight(moescope::withType(62, strip_->fontMetrics())); });
  for (PlotFrame* plot : std::initializer_list<PlotFrame*>{view_, strip_})
    connect(selection, &Selection::changed, plot, &PlotFrame::markDirty);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int, int column) { selection_->setExpert(column); });
  auto* column = plainColumn(this, 2);
  column->addWidget(view_, 1);
  column->addWidget(strip_);
  setFocusProxy(view_);
}

std::int64_t ByteAffinityView::step() const {
  return frame_ ? frame_->step : -1;
}

void ByteAffinityView::refill() {
  const History* history = selection_->history();
  frame_.reset();
  if (!history || history->steps().empty()) return view_->setNotice(noDataYetNotice(*selection_));
  frame_ = history->specialisation_layer_at(selection_->layer(), selection_->step());
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation || specialisation->byte_256E.empty()) {
    const bool of_tokens =
        specialisation && !history->info().config_toml.empty();  // runs here count bytes if they read bytes
    return view_->setNotice(of_tokens ? QString("The tokens of this run are those of a tokenizer, not bytes")
                                      : notInLogNotice(history->info(), "bytes by expert"));
  }
  view_->setNotice({});
  lift_ = byte_class_lift(*specialisation);
  std::vector<std::uint8_t> codes;
  for (const float lift : lift_) codes.push_back(is_missing(lift) ? kNoDataCode : utilisationCode(lift));
  QStringList kinds;
  for (int c = 0; c < kNumByteClasses; ++c) kinds << QString::fromLatin1(byte_class_name(static_cast<ByteClass>(c)));
  const int experts = to_int(specialisation->n_experts());
  view_->setCells(kNumByteClasses, experts, std::move(codes));
  view_->setLegend(liftLegend(isDark(palette())));
  view_->setRowAxis(ticksOf(kinds), "kind of byte");
  view_->setColumnAxis(integerTicks(0, experts - 1, std::max(2, view_->width() / 60)), "expert");
  view_->setCurrent(MatrixPlot::kAllRows, selection_->expert());
}

void ByteAffinityView::refillStrip() {
  const History* history = selection_->history();
  const auto frame = history ? history->specialisation_layer_at(selection_->layer(), selection_->step()) : nullptr;
  const SpecialisationFrame* specialisation = specialisationOf(frame.get(), selection_->layer());
  strip_->setNotice(specialisation ? QString() : QString(QLatin1Char(' ')));
  if (!specialisation) return;
  int expert = selection_->expert();
  const bool chosen = expert >= 0 && expert < to_int(specialisation->n_experts());
  if (!chosen) expert = to_int(highestLift(byte_class_lift(*specialisation)) % specialisation->n_experts());
  strip_->setBytes(chosen ? QString("Bytes of expert %1, \u00d7 its share (5 tokens or more)").arg(expert)
                          : QString("Bytes of expert %1, \u00d7 its share (the most specialised expert)").arg(expert),
                   bytes_of_expert(*specialisation, expert));
}

void ByteAffinityView::paintNumbers(QPainter& painter) const {
  view_->paintTexts(painter, view_->sizeFor(QStringLiteral("0.0")),
                    [this](int row, int column) { return liftText(lift_[row * view_->columns() + column]); });
}

QStringList ByteAffinityView::describe(int row, int column) const {
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation) return {};
  QStringList lines{QString("%1 in expert %2: %3 \u00d7 its share of all tokens")
                        .arg(QString::fromLatin1(byte_class_name(static_cast<ByteClass>(row))))
                        .arg(column)
                        .arg(formatValue(lift_[row * view_->columns() + column], 3))};
  QString favourites;
  const auto bytes = bytes_of_expert(*specialisation, column);
  for (std::size_t i = 0; i < std::min<std::size_t>(10, bytes.size()); ++i)
    favourites += byteGlyph(static_cast<std::uint8_t>(bytes[i].kind)) + QLatin1Char(' ');
  lines << QString("its bytes, most preferred first: %1").arg(favourites);
  return lines;
}

QStringList ByteAffinityView::answers() const {
  const SpecialisationFrame* specialisation = specialisationOf(frame_.get(), selection_->layer());
  if (!specialisation || !view_->notice().isEmpty() || lift_.empty()) return {};
  const std::size_t best = highestLift(lift_);
  if (is_missing(lift_[best])) return {};
  const auto expert = best % specialisation->n_experts();
  const QString kind = QString::fromLatin1(byte_class_name(static_cast<ByteClass>(best / specialisation->n_experts())));
  const QString times = formatValue(lift_[best], 2);
  return {QString("Expert %1 gets %2 \u00d7 its share of %3").arg(expert).arg(times, kind),
          QString("Expert %1 on %2: %3 \u00d7").arg(expert).arg(kind, times)};
}

ValueTable ByteAffinityView::table() const {
  ValueTable table({"step", "layer", "expert", "byte", "slots", "share of the expert [share]", "lift"});
  const History* history = selection_->history();
  const auto frame = history ? history->specialisation_frame_at(selection_->step()) : nullptr;
  const SpecialisationFrame* specialisation = specialisationOf(frame.get(), selection_->layer());
  for (std::size_t e = 0; specialisation && e < specialisation->n_experts(); ++e)
    for (const TokensOfExpert& byte : bytes_of_expert(*specialisation, e, 1))
      table.add(frame->step, specialisation->layer, e, byte.kind, byte.n_slots, byte.share, byte.lift);
  return table;
}

}  // namespace moescope
