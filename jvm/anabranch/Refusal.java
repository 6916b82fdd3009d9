package anabranch;

import java.io.IOException;

/** What the node said against a question, before an answer or in the middle of it. */
final class Refusal extends IOException {
    Refusal(String said) {
        super(said);
    }
}
