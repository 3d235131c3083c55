#include "widgets/panel/explain_card.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QRegularExpression>
#include <QTextDocument>
#include <QVBoxLayout>
#include <cmath>
#include <string_view>
#include <utility>

#include "widgets/look/type_scale.h"
#include "widgets/plots/axis.h"

namespace moescope {

namespace {

constexpr int kWidth = 440, kMaxHeight = 460;
constexpr const char* kName = "explain_card";

QString escaped(const std::string& text) {
  return QString::fromStdString(text).toHtmlEscaped();
}

QString cardLine(const QString& label, const QString& words) {
  return words.isEmpty() ? QString() : QStringLiteral("<br><i>%1</i> %2").arg(label, words);
}

QString valueText(const Explanation& figure) {
  const std::string_view unit = figure.info->unit;
  if (unit == "share") return formatPercent(figure.value);
  const QString number = std::isinf(figure.value) ? QStringLiteral("exact") : formatValue(figure.value, 5);
  return unit.empty() ? number : number + QLatin1Char(' ') + QString::fromUtf8(figure.info->unit).toHtmlEscaped();
}

QString knobText(const Explanation::Knob& knob) {
  const QString key = escaped(knob.key);
  const QString link =
      knob.key.find('.') == std::string::npos ? key : QStringLiteral("<a href='knob:%1'>%1</a>").arg(key);
  return knob.value.empty() ? link : link + QStringLiteral(" (now %1)").arg(escaped(knob.value));
}

// For a text without superscripts.
QString plainPowers(QString html) {
  static const QRegularExpression kOne(QStringLiteral("<sup>(\\w)</sup>")),
      kSeveral(QStringLiteral("<sup>([^<]+)</sup>"));
  return html.replace(kOne, QStringLiteral("^\\1")).replace(kSeveral, QStringLiteral("^(\\1)"));
}

}  // namespace

QString figureCard(const Explanation& figure) {
  const MetricInfo& info = *figure.info;
  const auto text = [](const char* words) { return QString::fromUtf8(words).toHtmlEscaped(); };
  QString html = QStringLiteral("<p><b>%1</b>%2, %3<br><code>%4</code>")
                     .arg(text(info.name), *info.unit ? QStringLiteral(" [%1]").arg(text(info.unit)) : QString(),
                          QLatin1String(provenance_name(figure.kind)), text(info.formula));
  if (!figure.where.empty()) {
    html += QStringLiteral("<br><i>%1:</i><br>").arg(escaped(figure.where));
    if (!figure.expression.empty())
      html += QStringLiteral("<code>%1 = <b>%2</b></code>").arg(escaped(figure.expression), valueText(figure));
    if (!figure.note.empty()) html += QStringLiteral("<br>") + escaped(figure.note);
  } else {
    html += QStringLiteral("<br><i>%1</i>").arg(QObject::tr("no value here"));
  }
  QStringList knobs;
  for (const Explanation::Knob& knob : figure.knobs) knobs << knobText(knob);
  return html + cardLine(QObject::tr("Good:"), text(info.good)) + cardLine(QObject::tr("Bad:"), text(info.bad)) +
         cardLine(QObject::tr("Moved by:"), knobs.join(QStringLiteral(", "))) +
         cardLine(QObject::tr("Source:"), text(info.source)) + QStringLiteral("</p>");
}

ExplainCard* ExplainCard::open(QWidget* window, QPoint at, const QString& title, std::function<QString()> html) {
  for (ExplainCard* other : window->findChildren<ExplainCard*>()) {
    if (!other->isPinned()) other->deleteLater(), other->hide();
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
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  setBackgroundRole(QPalette::Window);
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::SizeAllCursor);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 4, 4, 6);
  column->setSpacing(2);
  auto* header = new QHBoxLayout;
  auto* name = new QLabel(QStringLiteral("<b>%1</b>").arg(title.toHtmlEscaped()), this);
  header->addWidget(name, 1);
  const auto button = [&](const QString& text, const QString& tip) {
    auto* made = new QToolButton(this);
    made->setText(text);
    made->setToolTip(tip);
    made->setAutoRaise(true);
    made->setCursor(Qt::ArrowCursor);
    made->setFocusPolicy(Qt::NoFocus);
    header->addWidget(made);
    return made;
  };
  pin_ = button(tr("Pin"), tr("Keeps the card open, with the values of the newest step"));
  pin_->setCheckable(true);
  connect(button(tr("Copy"), tr("Copies the card as text (Ctrl+C)")), &QToolButton::clicked, this, &ExplainCard::copy);
  connect(button(QStringLiteral("\u00d7"), tr("Closes the card (Esc)")), &QToolButton::clicked, this,
          &QObject::deleteLater);
  column->addLayout(header);
  body_ = new QLabel;
  body_->setTextFormat(Qt::RichText);
  body_->setWordWrap(true);
  body_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  body_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::LinksAccessibleByMouse);
  body_->setCursor(Qt::ArrowCursor);
  body_->setContentsMargins(0, 0, 6, 0);
  connect(body_, &QLabel::linkActivated, this,
          [this](const QString& link) { emit knobRequested(link.section(QLatin1Char(':'), 1)); });
  scroll_ = new QScrollArea(this);
  scroll_->setWidgetResizable(true);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setFocusPolicy(Qt::NoFocus);
  scroll_->setWidget(body_);
  column->addWidget(scroll_);
  setAccessibleName(tr("Explanation: %1").arg(title));
  refresh();
  qApp->installEventFilter(this);
}

void ExplainCard::refresh() {
  const QString html = cardInPrint(html_());
  if (body_->text() != html) body_->setText(html);
}

// As tall as its words need, inside the window, beside the place that it explains.
void ExplainCard::place(QPoint at) {
  const QWidget* window = parentWidget();
  const int width = std::min(withType(kWidth, fontMetrics()), window->width() - 16);
  const int chrome = fontMetrics().height() + 28;
  const int words = body_->heightForWidth(width - 34);
  resize(width, std::min({words + chrome, withType(kMaxHeight, fontMetrics()), window->height() - 16}));
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

// A press anywhere else closes a card that is not pinned.
bool ExplainCard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonPress && !isPinned() && watched->isWidgetType()) {
    const auto* widget = static_cast<const QWidget*>(watched);
    if (widget != this && !isAncestorOf(widget)) deleteLater();
  }
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
