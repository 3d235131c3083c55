#include "widgets/panel/explain_card.h"

#include <QApplication>
#include <QBuffer>
#include <QClipboard>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QStyle>
#include <QTextDocument>
#include <QVBoxLayout>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "core/config/config_field.h"
#include "core/lessons/lesson.h"
#include "widgets/look/layouts.h"
#include "widgets/look/sign.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

void noteFigures(const LessonStep& step, const TaughtIn& lesson, std::map<std::string, TaughtIn>* taught) {
  for (const LessonCheck& check : step.checks) taught->emplace(check.figure.key, lesson);
  for (const auto& [name, figure] : step.values) taught->emplace(figure.key, lesson);
}

std::map<std::string, TaughtIn> figuresOfLessons() {
  std::map<std::string, TaughtIn> taught;
  int number = 0;
  for (const std::string& name : lesson_names()) {
    const Lesson lesson = find_lesson(name).lesson;
    const TaughtIn place{++number, QString::fromStdString(lesson.title)};
    for (const LessonStep& step : lesson.steps) noteFigures(step, place, &taught);
  }
  return taught;
}

}  // namespace

std::optional<TaughtIn> taughtIn(std::string_view figure) {
  static const std::map<std::string, TaughtIn> kTaught = figuresOfLessons();
  const auto found = kTaught.find(std::string(figure));
  return found == kTaught.end() ? std::nullopt : std::optional(found->second);
}

namespace {

constexpr int kCardWidth = 416, kCardHeight = 560, kIcon = 16;
constexpr const char* kName = "explain_card";

QString escaped(const std::string& text) {
  return QString::fromStdString(text).toHtmlEscaped();
}

QString escaped(const char* text) {
  return QString::fromUtf8(text).toHtmlEscaped();
}

QString markedLine(const char* kind, const QString& label, const char* words) {
  if (!*words) return {};
  return QStringLiteral("<p class=\"%1\"><b>%2</b> %3</p>").arg(QLatin1String(kind), label, escaped(words));
}

// Name, unit, a box with the formula, good and bad values, and more lines about the figure.
QString cardOf(const MetricInfo& info, const QString& formula, const QString& more) {
  const QString unit = *info.unit ? QStringLiteral(", ") + escaped(info.unit) : QString();
  return QStringLiteral("<p><b>%1</b>%2</p><table class=\"formula\"><tr><td>%3</td></tr></table>")
             .arg(escaped(info.name), unit, formula) +
         markedLine("good", "Good:", info.good) + markedLine("bad", "Bad:", info.bad) + more;
}

QString valueText(const Explanation& figure) {
  const std::string_view unit = figure.info->unit;
  if (unit == "share") return formatPercent(figure.value);
  const QString number = std::isinf(figure.value) ? QStringLiteral("exact") : formatValue(figure.value, 5);
  return unit.empty() ? number : number + QLatin1Char(' ') + escaped(figure.info->unit);
}

// "bias update rate, now 0.001"
QString knobText(const Explanation::Knob& knob) {
  const ConfigField* field = find_field(knob.key);
  const QString key = escaped(knob.key);
  QString name = field ? escaped(field->label) : key;
  if (field && name.size() > 1 && name[1].isLower()) name[0] = name[0].toLower();
  if (!knob.log_name.empty()) name += QStringLiteral(" (%1)").arg(escaped(knob.log_name));
  const QString link = knob.settable ? QStringLiteral("<a href='knob:%1'>%2</a>").arg(key, name) : name;
  return knob.value.empty() ? link : QString("%1, now %2").arg(link, escaped(knob.value));
}

// "bias update rate, now 0.001, and auxiliary loss, now none"
QString knobsText(const std::vector<Explanation::Knob>& knobs) {
  QStringList parts;
  for (const Explanation::Knob& knob : knobs) parts << knobText(knob);
  if (parts.size() < 2) return parts.join(QString());
  const QString last = parts.takeLast();
  return QString("%1, and %2").arg(parts.join(QStringLiteral(", ")), last);
}

// "T: tokens of the batch", on a line of its own.
QString legendText(const MetricInfo& info) {
  const QString legend = escaped(formula_legend(info.formula));
  return legend.isEmpty() ? QString() : QStringLiteral("<br><span class=\"muted\">%1</span>").arg(legend);
}

// The computation: place, formula, formula with values, meanings of the letters, and a note on the values.
QString formulaText(const Explanation& figure) {
  const QString formula = escaped(figure.info->formula);
  if (figure.place.empty())
    return QStringLiteral("<span class=\"muted\">%1</span><br><code>%2</code>").arg("no value here", formula) +
           legendText(*figure.info);
  QString html = QStringLiteral("<span class=\"muted\">%1, %2</span><br><code>%3</code>")
                     .arg(escaped(figure.place), QLatin1String(provenance_name(figure.kind)), formula);
  if (!figure.expression.empty())
    html += QStringLiteral("<br><code>&nbsp;&nbsp;= %1 = <b>%2</b></code>")
                .arg(escaped(figure.expression), valueText(figure));
  html += legendText(*figure.info);
  if (!figure.note.empty()) html += QStringLiteral("<br><span class=\"muted\">%1</span>").arg(escaped(figure.note));
  return html;
}

QString moreLines(const Explanation& figure) {
  QStringList lines;
  if (const QString knobs = knobsText(figure.knobs); !knobs.isEmpty()) lines << QString("Affected by: %1").arg(knobs);
  if (const auto lesson = taughtIn(figure.info->key))
    lines << QString("Taught in <a href='lesson:%1'>lesson %1, %2</a>")
                 .arg(lesson->number)
                 .arg(lesson->title.toHtmlEscaped());
  if (*figure.info->source) lines << QString("Source: %1").arg(escaped(figure.info->source));
  return lines.isEmpty() ? QString()
                         : QStringLiteral("<p class=\"more\">%1</p>").arg(lines.join(QStringLiteral("<br>")));
}

// Returns the text with superscripts written as powers: b^(2j/d).
QString plainPowers(QString html) {
  static const QRegularExpression kOne(QStringLiteral("<sup>(\\w)</sup>")),
      kSeveral(QStringLiteral("<sup>([^<]+)</sup>"));
  return html.replace(kOne, QStringLiteral("^\\1")).replace(kSeveral, QStringLiteral("^(\\1)"));
}

}  // namespace

QString figureCard(const Explanation& figure) {
  return cardOf(*figure.info, formulaText(figure), moreLines(figure));
}

QString metricCard(const MetricInfo& info) {
  std::vector<Explanation::Knob> knobs;
  for (const QString& key : QString::fromUtf8(info.knobs).split(QStringLiteral(", "), Qt::SkipEmptyParts))
    knobs.push_back({key.toStdString(), {}, {}});
  const auto more = [](const QString& label, const QString& words) {
    return words.isEmpty() ? QString() : QStringLiteral("%1 %2<br>").arg(label, words);
  };
  const QString formula = QStringLiteral("<span class=\"muted\">%1</span><br><code>%2</code>")
                              .arg(QLatin1String(provenance_name(info.provenance)), escaped(info.formula));
  return cardOf(info, formula + legendText(info),
                QStringLiteral("<p class=\"more\">%1%2</p>")
                    .arg(more("Affected by:", knobsText(knobs)), more("Source:", escaped(info.source))));
}

ExplainCard* ExplainCard::open(QWidget* window, QPoint at, const QString& title, std::function<QString()> html) {
  for (ExplainCard* other : window->findChildren<ExplainCard*>()) {
    if (!other->isPinned()) {
      other->deleteLater();
      other->hide();
    }
  }
  auto* card = new ExplainCard(window, title, std::move(html));
  card->place(at);
  card->show();
  card->raise();
  card->setFocus();
  return card;
}

QString cardInPrint(const QString& html) {
  static const QRegularExpression kPower(QStringLiteral(R"(\^(?:([A-Za-z])\b|\(([^()<>]+)\)))"));
  return inPrint(html).replace(kPower, QStringLiteral("<sup>\\1\\2</sup>"));
}

ExplainCard::ExplainCard(QWidget* window, const QString& title, std::function<QString()> html)
    : QFrame(window), html_(std::move(html)) {
  setObjectName(kName);
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::SizeAllCursor);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(kSpace16, kSpace12, kSpace4, kSpace12);
  column->setSpacing(kSpace8);
  addHeader(title);
  addBody();
  setAccessibleName(QString("Explanation: %1").arg(title));
  refresh();
  qApp->installEventFilter(this);
}

void ExplainCard::addHeader(const QString& title) {
  auto* header = new QHBoxLayout;
  header->setContentsMargins(0, 0, kSpace12, 0);
  header->setSpacing(0);
  auto* name = new QLabel(title.toHtmlEscaped(), this);
  name->setWordWrap(true);
  followFont(name, [name] { name->setFont(typeFont(Type::heading, true)); });
  header->addWidget(name, 1);
  pin_ = addButton(header, "Pin", "Keeps the card open, with the values of the newest step");
  pin_->setCheckable(true);
  connect(addButton(header, "Copy", "Copies the card as text (Ctrl+C)"), &QToolButton::clicked, this,
          &ExplainCard::copy);
  connect(addButton(header, "Close", "Closes the card (Esc)"), &QToolButton::clicked, this, &QObject::deleteLater);
  layout()->addItem(header);
}

namespace {

// Paints an icon in a box of 16 x 16.
void paintCardIcon(QPainter& painter, int icon) {
  if (icon == 0) {  // a pin
    painter.drawLine(QPointF(5, 2.5), QPointF(11, 2.5));
    painter.drawPolyline(QPolygonF({{6, 2.5}, {6, 7}, {4, 9.5}, {12, 9.5}, {10, 7}, {10, 2.5}}));
    painter.drawLine(QPointF(8, 9.5), QPointF(8, 14));
  } else if (icon == 1) {  // two sheets
    painter.drawRoundedRect(QRectF(5.5, 5.5, 8, 8), 1, 1);
    painter.drawPolyline(QPolygonF({{10.5, 2.5}, {2.5, 2.5}, {2.5, 10.5}}));
  } else {  // a cross
    painter.drawLine(QPointF(3.5, 3.5), QPointF(12.5, 12.5));
    painter.drawLine(QPointF(12.5, 3.5), QPointF(3.5, 12.5));
  }
}

class CardButton : public QToolButton {
 public:
  CardButton(int icon, QWidget* parent) : QToolButton(parent), icon_(icon) {
    followFont(this, [this] { setFixedSize(QSize(1, 1) * withType(kFlatHeight, fontMetrics())); });
  }

 protected:
  void paintEvent(QPaintEvent* event) override {
    QToolButton::paintEvent(event);
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const double scale = withType(kIcon, fontMetrics()) / double(kIcon);
    painter.translate((width() - kIcon * scale) / 2, (height() - kIcon * scale) / 2);
    painter.scale(scale, scale);
    painter.setPen(QPen(palette().color(isChecked() ? QPalette::Link : QPalette::Text), 1.3, Qt::SolidLine,
                        Qt::RoundCap, Qt::RoundJoin));
    paintCardIcon(painter, icon_);
  }

 private:
  int icon_;
};

QString signHtml(Sign sign, int size, bool dark, double pixel_ratio) {
  QByteArray png;
  QBuffer buffer(&png);
  signPixmap(sign, size, dark, pixel_ratio).save(&buffer, "PNG");
  return QStringLiteral(
             "<img src='data:image/png;base64,%1' width='%2' height='%2' style='vertical-align:middle'>&nbsp; ")
      .arg(QString::fromLatin1(png.toBase64()))
      .arg(size);
}

}  // namespace

QToolButton* ExplainCard::addButton(QHBoxLayout* header, const QString& name, const QString& tip) {
  auto* button = new CardButton(header->count() - 1, this);
  button->setAccessibleName(name);
  button->setToolTip(tip);
  button->setAutoRaise(true);
  button->setCursor(Qt::ArrowCursor);
  button->setFocusPolicy(Qt::NoFocus);
  header->addWidget(button, 0, Qt::AlignTop);
  return button;
}

void ExplainCard::addBody() {
  body_ = new QLabel;
  body_->setTextFormat(Qt::RichText);
  body_->setWordWrap(true);
  body_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  body_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::LinksAccessibleByMouse);
  body_->setCursor(Qt::ArrowCursor);
  body_->setContentsMargins(0, 0, kSpace12, 0);
  connect(body_, &QLabel::linkActivated, this, &ExplainCard::follow);
  scroll_ = scrollOf(body_);
  scroll_->setFocusPolicy(Qt::NoFocus);
  for (QWidget* ground : {static_cast<QWidget*>(scroll_), scroll_->viewport(), static_cast<QWidget*>(body_)})
    ground->setAutoFillBackground(false);
  layout()->addWidget(scroll_);
}

void ExplainCard::follow(const QString& link) {
  const QString target = link.section(QLatin1Char(':'), 1);
  if (link.startsWith(QLatin1String("lesson:"))) return emit lessonRequested(target);
  if (link.startsWith(QLatin1String("page:"))) return emit manualRequested(target);
  emit knobRequested(target);
}

void ExplainCard::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  painter.fillRect(rect(), palette().window());
  drawRounded(painter, rect(), kRadiusPanel, QColor(c.popup), QColor(c.field_border));
}

// Styles the classes of figureCard().
QString ExplainCard::styled(QString html) const {
  const Colors& c = colors(palette());
  const bool dark = isDark(palette());
  const int mark = withType(kMarkSize, fontMetrics());
  const QString muted = QStringLiteral("style='color:%1'").arg(QColor(c.ink2).name());
  const QString code = QStringLiteral("<code style='font-size:%1px'>").arg(formulaFont(font()).pixelSize());
  html.replace(QLatin1String("<code>"), code);
  html.replace(QLatin1String("<table class=\"formula\">"),
               QStringLiteral("<table width='100%' cellspacing='0' cellpadding='%1' bgcolor='%2'>")
                   .arg(withType(kSpace8, fontMetrics()))
                   .arg(QColor(c.sunken).name()));
  html.replace(QLatin1String("class=\"muted\""), muted);
  html.replace(QLatin1String("<p class=\"more\">"), QStringLiteral("<hr><p %1>").arg(muted));
  html.replace(QLatin1String("<p class=\"good\">"),
               QStringLiteral("<p>") + signHtml(Sign::good, mark, dark, devicePixelRatioF()));
  html.replace(QLatin1String("<p class=\"bad\">"),
               QStringLiteral("<p>") + signHtml(Sign::bad, mark, dark, devicePixelRatioF()));
  return html;
}

void ExplainCard::refresh() {
  const QString html = styled(cardInPrint(html_()));
  if (body_->text() != html) body_->setText(html);
}

// Places the card beside the explained position, inside the window, with the height of its text if there is room.
void ExplainCard::place(QPoint at) {
  const QWidget* window = parentWidget();
  const int width = std::min(withType(kCardWidth, fontMetrics()), window->width() - kSpace16);
  const QMargins around = layout()->contentsMargins();
  const int scroll_bar = style()->pixelMetric(QStyle::PM_ScrollBarExtent);
  const int chrome = layout()->itemAt(0)->sizeHint().height() + layout()->spacing() + around.top() + around.bottom();
  const int words = body_->heightForWidth(width - around.left() - around.right() - scroll_bar);
  resize(width, std::min({words + chrome, withType(kCardHeight, fontMetrics()), window->height() - kSpace16}));
  QPoint corner = window->mapFromGlobal(at) + QPoint(10, 8);
  if (corner.y() + height() > window->height() - 8) corner.setY(window->height() - 8 - height());
  if (corner.x() + width > window->width() - 8) corner.setX(window->width() - 8 - width);
  move(std::max(8, corner.x()), std::max(8, corner.y()));
}

QString ExplainCard::text() const {
  QTextDocument document;
  document.setHtml(plainPowers(body_->text()));
  return document.toPlainText();
}

void ExplainCard::copy() {
  QApplication::clipboard()->setText(text());
}

// Closes an unpinned card on a press elsewhere, and on a key that may show something else.
bool ExplainCard::eventFilter(QObject* watched, QEvent* event) {
  const auto* widget = qobject_cast<const QWidget*>(watched);
  const bool is_elsewhere =
      event->type() == QEvent::MouseButtonPress && widget && widget != this && !isAncestorOf(widget);
  if (!isPinned() && (is_elsewhere || event->type() == QEvent::Shortcut)) deleteLater();
  return QFrame::eventFilter(watched, event);
}

void ExplainCard::mousePressEvent(QMouseEvent* event) {
  grip_ = event->pos();
  raise();
}

void ExplainCard::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons() & Qt::LeftButton) move(pos() + event->pos() - grip_);
}

void ExplainCard::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) return deleteLater();
  if (event->matches(QKeySequence::Copy)) return copy();
  QFrame::keyPressEvent(event);
}

}  // namespace moescope
