package anabranch;

/** What the node said against a question, before an answer or in the middle of it. */
final class Refusal extends JournalException {
    Refusal(String said) {
        super(said);
    }
}
