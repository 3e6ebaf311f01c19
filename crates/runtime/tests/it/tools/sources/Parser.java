package example;

import java.util.List;

/** Parses. */
@Deprecated
public final class Parser<T extends Comparable<T>> extends Base implements Visitor {
    private static final int MOST = 10;
    private final List<T> tokens;

    public Parser(List<T> tokens) {
        this.tokens = tokens;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <R> R push(T token, Class<R> as) throws ParseException {
        Runnable r = new Runnable() { public void run() {} };
        return null;
    }

    @Override void bare() {}

    static class Inner {
        void push() {}
    }
}

interface Visitor {
    int visit(String token);
    default int twice(String token) { return visit(token); }
}

enum Kind {
    WORD, END;
    boolean last() { return this == END; }
}

record Token(String text, Kind kind) {
    Token {
        assert text != null;
    }
}

@interface Marked {
    String value() default "";
}
