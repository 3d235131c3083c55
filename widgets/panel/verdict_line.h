// One sentence above the panels of a workspace, with its subject at the right and a gap below. A judgement also has a
// sign, a word and colours, and may begin with a link. The line is hidden if there is no sentence.
#pragma once

#include <QLabel>
#include <QToolButton>
#include <QWidget>
#include <functional>
#include <optional>

#include "widgets/look/fitted_text.h"
#include "widgets/look/sign.h"

namespace moescope {

class VerdictLine : public QWidget {
  Q_OBJECT

 public:
  explicit VerdictLine(QWidget* parent = nullptr);
  // Sentence and subject, each from long to short.
  void setVerdict(const QStringList& sentence, const QStringList& about);

  struct Judgement {
    Sign sign = Sign::unsure;
    QString word;          // "Needs attention"
    QString link;          // link at the beginning of the sentence; empty: none
    QStringList sentence;  // without the link, from long to short; empty: no verdict
    QStringList about;
  };
  void setVerdict(const Judgement& judgement);
  // Shows "?", which opens a card with this rich text.
  void setExplanation(const QString& title, std::function<QString()> html);

  QString text() const;  // the whole sentence as plain text
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 signals:
  void linkActivated();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void colorText();

  std::optional<Sign> sign_;  // sign of the judgement; nullopt for a plain sentence
  SignLabel* mark_;
  QLabel *word_, *link_;
  QString link_text_;
  FittedLabel *sentence_, *about_;
  QToolButton* explain_;
};

}  // namespace moescope
