#include "widgets/panel/verdict_line.h"

#include <QApplication>
#include <QEvent>
#include <QHBoxLayout>
#include <QPainter>

#include "widgets/look/fitted_text.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/explain_card.h"

namespace moescope {

VerdictLine::VerdictLine(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(kSpace12, 0, kSpace12, 0);
  row->setSpacing(kSpace8);
  mark_ = new SignLabel(this);
  word_ = new QLabel(this);
  link_ = new LinkLabel({}, this);
  connect(link_, &QLabel::linkActivated, this, &VerdictLine::linkActivated);
  sentence_ = new FittedLabel(this);
  about_ = new FittedLabel(this);
  about_->setRole(QPalette::PlaceholderText);
  about_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  explain_ = new QToolButton(this);
  explain_->setText(QStringLiteral("?"));
  explain_->setAutoRaise(true);
  followFont(this, [this] {
    word_->setFont(semibold(QApplication::font()));
    about_->setFont(typeFont(Type::secondary));
    sentence_->setFont(typeFont(Type::body, !sign_));
  });
  for (QWidget* part : std::initializer_list<QWidget*>{mark_, word_, link_, sentence_}) row->addWidget(part);
  row->addSpacing(kSpace8);
  row->addWidget(about_, 1);
  row->addWidget(explain_);
  for (QWidget* part : std::initializer_list<QWidget*>{mark_, word_, link_, explain_}) part->hide();
  hide();
}

void VerdictLine::setVerdict(const QStringList& sentence, const QStringList& about) {
  sentence_->setTexts(sentence);
  about_->setTexts(about);
  setAccessibleName(text());
  setVisible(!sentence.isEmpty());
}

void VerdictLine::setVerdict(const Judgement& judgement) {
  sign_ = judgement.sign;
  mark_->setSign(judgement.sign);
  word_->setText(judgement.word);
  link_text_ = judgement.link;
  sentence_->setFont(typeFont(Type::body));
  colorText();
  for (QWidget* part : std::initializer_list<QWidget*>{mark_, word_}) part->show();
  link_->setVisible(!link_text_.isEmpty());
  setVerdict(judgement.sentence, judgement.about);
  update();
}

// Sets the text again, since rich text keeps the colour of its links.
void VerdictLine::colorText() {
  const Colors& c = colors(palette());
  QPalette words = palette();
  if (sign_) words.setColor(QPalette::WindowText, signColor(*sign_, isDark(palette())));
  word_->setPalette(words);
  link_->setText(
      QStringLiteral("<a href='.' style='color:%1'>%2</a>").arg(QColor(c.accent).name(), link_text_.toHtmlEscaped()));
}

void VerdictLine::setExplanation(const QString& title, std::function<QString()> html) {
  explain_->setAccessibleName(QString("Explain %1").arg(title));
  explain_->setToolTip(explain_->accessibleName());
  connect(explain_, &QToolButton::clicked, this, [this, title, html = std::move(html)] {
    ExplainCard::open(window(), explain_->mapToGlobal(explain_->rect().bottomLeft()), title, html);
  });
  explain_->show();
}

QString VerdictLine::text() const {
  QStringList parts{word_->isHidden() ? QString() : word_->text(), link_text_, sentence_->text()};
  parts.removeAll(QString());
  return parts.join(QLatin1Char(' '));
}

QSize VerdictLine::sizeHint() const {
  return {0, withType(kVerdictHeight, fontMetrics())};
}

void VerdictLine::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) colorText();
  QWidget::changeEvent(event);
}

void VerdictLine::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const QColor ground = sign_ ? signGround(*sign_, isDark(palette())) : QColor(c.surface);
  drawRounded(painter, rect(), kRadiusPanel, ground, QColor(c.hairline));
}

}  // namespace moescope
