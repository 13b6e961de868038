"""Words that say what kind of work is wanted, in groups, in English, German, French, Spanish and Russian.

A group is a feature; what it is worth for a type of task stands in :mod:`cognition.classification.weights`. Words are
whole words in the spelling of :func:`cognition.recall.words.normalised`, a hyphen between two makes them a phrase. A
word may be of several groups. Phrases are in :mod:`cognition.classification.phrases`.
"""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "make": """
        write build create implement generate draft compose design develop produce make code program craft script
        schreib schreibe schreiben bau baue erstelle erstell entwirf programmiere programmier implementiere generiere
        écris écrire crée créer rédige rédiger génère programme implémente fais escribe escríbeme escribir crea créame
        genera haz hazme implementa programa redacta escribime напиши напишите создай создайте сделай реализуй
        сгенерируй составь придумай provide sketch formulate invent-me prepare assemble scaffold bootstrap formuliere
        verfasse erzeuge invente prépare développe diseña prepara desarrolla разработай подготовь нарисуй
    """,
    "change": """
        refactor rewrite convert port migrate extend add fix patch simplify optimize optimise turn replace adapt modify
        vectorize parametrize clean modernize translate transform split extract speed ändere refaktoriere ergänze
        erweitere behebe korrigiere modifie corrige ajoute convertis refactorise modifica añade agrega convierte
        refactoriza исправь добавь перепиши переделай оптимизируй shorten lengthen continue rephrase reword polish
        improve upgrade rename inline parallelize parallelise memoize annotate document harden kürze verbessere
        übersetze umschreiben améliore raccourcis réécris mejora acorta reescribe улучши сократи
    """,
    "want": """
        need want give gimme show like looking brauche gib zeig bräuchte möchte besoin donne voudrais veux necesito dame
        quiero нужен нужна нужно дай дайте хочу покажи
    """,
    "code_thing": """
        function functions method class classes script scripts regex regexp query queries macro endpoint endpoints api
        snippet hook decorator migration workflow pipeline dockerfile makefile docker-compose compose component
        middleware parser lexer compiler interpreter cli subcommand library package module extension plugin server
        client service microservice crawler scraper bot daemon handler validator iterator generator struct enum
        interface trait predicate schema config unit test tests fixture mock stub skeleton boilerplate template oneliner
        liner loop algorithm implementation webhook cron cronjob crontab systemd kernel shader program app formula
        annotation type types dataclass model serializer controller route stylesheet selector html button userscript
        applet procedure trigger view index table column coverage signature wrapper singleton thread mutex queue stack
        heap tree hashmap linked array kata game snake tetris website webpage landing dashboard notebook skript funktion
        klasse abfrage methode programm makro modul schnittstelle fonction requête classe méthode programme función
        clase consulta método programa функцию функция скрипт скрипта класс запрос программу программа метод код бота
        регулярку constructor destructor getter setter callback closure lambda coroutine goroutine channel structs
        import imports namespace enums repo codebase source type-definition typedef regexes commit patch branch resolver
        reducer slider modal navbar carousel tooltip grid layout dropdown menu spinner converter calculator timer clock
        tracker manifest playbook role helmchart chart-template pod implementierung testfälle unittest unittests
        konfiguration befehl einzeiler commande script-shell comando pruebas команду тесты тест конфиг обработчик
    """,
    "technology": """
        python python3 java javascript js typescript ts rust golang kotlin swift scala haskell ocaml elixir erlang
        clojure lisp scheme prolog perl php ruby rails django flask fastapi sqlalchemy alembic pydantic celery numpy
        pandas polars pytorch tensorflow react vue svelte angular nextjs node nodejs express deno npm webpack vite css
        scss sass tailwind html html5 sql sqlite postgres postgresql mysql mongodb redis kafka graphql grpc protobuf
        bash zsh shell powershell awk sed jq grep vim emacs lua julia matlab r vba excel sheets ansible terraform
        kubernetes k8s helm docker nginx apache gitlab github actions jenkins pytest junit jest mocha cypress selenium
        playwright asyncio tokio serde cuda opengl glsl wasm solidity fortran cobol assembly asm x86 arduino esp32
        raspberry micropython unity godot latex makefile cmake gradle maven spring hibernate laravel wordpress jquery
        lambda aws s3 dynamodb json yaml toml xml csv regex c++ c# f# .net dotnet linq swiftui android flutter dart zig
        nim argparse stdlib curl git systemd ncurses criterion heic cron ssh tsx jsx webgl oauth jwt websocket rest
        clickhouse airflow dbt spark openapi swagger groovy
    """,
    "code_quality": """
        nested recursion recursive global variables arguments argument parameter parameters async await typed generic
        idempotent vectorized dry thread-safe debounce throttle pagination cursor retry backoff cache memoize stdin
        stdout stderr argv flag flags exit logging lint linter compiles compile ascii unicode in-place type-hints hints
        docstring docstrings squash alias commented dependency dependencies deprecated
    """,
    "review": """
        review reviewer reviews audit critique inspect pr diff merge lgtm bug bugs buggy leak leaks race deadlock
        vulnerability vulnerable injection xss csrf unsafe safe secure security insecure idiomatic smell smells
        readability readable maintainable bottleneck complexity big-o undefined behaviour behavior overflow off-by-one
        edge dead reentrant blocking flaky thread-safe pitfalls flaw flaws mistake mistakes error errors exception
        traceback stacktrace segfault panic crash crashes crashing hangs fails failing broken warning nit nits nitpick
        naming findings sloppy correct correctly wrong violates violate protects dangerous criticise criticize miss
        misses assertion criticism reviewing comprehensible efficient inefficient slow prüf prüfe prüfen durchsehen
        ansehen fehler sicher sicherheitslücke lücke falsch speicherleck relis relire vérifie vérifier erreur erreurs
        faille bogue sûr fuite revisa revisar errores fallo fallos seguro segura vulnerabilidad проверь проверьте
        посмотри ошибка ошибки ошибку ревью безопасно безопасен уязвимость утечка баг баги smelly harmful performant
        allocation allocations null nil dereference pointer dangling unhandled swallow swallowed swallows silently
        coupling cohesion bad-practice cleaner approve approach problems problem issues concerns improvements suspicious
        misuse wrongly escapes unescaped unsicher fehlerhaft sauber lesbar prüfst korrekt correcte propre lisible
        problème problèmes correcta correcto limpio problema problemas правильно корректно проблема проблемы
    """,
    "explain": """
        explain explains walk describe understand understanding meaning means mean does clarify erklär erkläre erklären
        bedeutet explique expliquer signifie explica significa объясни объясните означает why warum pourquoi почему
    """,
    "knowledge": """
        history origin origins invented inventor discovered discovery founded founder etymology biography capital
        population president prime minister king queen emperor empire war battle treaty century centuries ancient
        medieval republic island iceland pacific revolution planet planets star moon galaxy species animal animals bird
        birds bees whale mammal plant plants tree vaccine vaccines disease symptom symptoms treatment drug drugs protein
        vitamin caffeine chemistry physics biology geology astronomy philosophy religion law laws legal regulation
        regulations gdpr licence license licences licenses patent patents trademark tax taxes subsidy subsidies visa
        citizenship constitution election elections parliament eu european union nato un country countries city river
        mountain mountains ocean evolution climate energy nuclear solar wind battery batteries hydrogen heat pump
        semiconductor quantum economy inflation gdp currency market company companies industry dealers manufacturers
        award oscar nobel director actor actress author novelist painter composer album band critics tallest largest
        highest longest oldest deepest fastest biggest first world record records average temperature difference
        differences versus known theories theory myth scientists researchers discover happened happens exist exists
        existed died born geschichte ursprung erfunden erfinder hauptstadt einwohner gesetz gesetze förderung
        förderungen steuer krieg unterschied jahrhundert entdeckt gegründet histoire origine inventé capitale loi lois
        aides différence siècle découvert guerre historia origen inventó ley leyes ayudas diferencia siglo descubrió
        guerra история происхождение изобрёл изобрел столица закон законы отличие разница век открыл война население
        germany german france french spain spanish italy italian poland sweden norway denmark finland japan japanese
        china chinese india indian brazil mexico canada usa uk britain british england scotland ireland russia russian
        ukraine turkey egypt egyptian africa african asia asian europe america american australia switzerland austria
        netherlands dutch portugal greece greek rome ottoman soviet viking vikings aztec pyramid pyramids dinosaur
        dinosaurs volcano volcanoes earthquake earthquakes hurricane glacier desert forest bacteria virus cell cells dna
        gene genes neuron brain cancer diabetes allergy side effects dosage dose safety effective effectiveness allowed
        required requirements rules standard standards protocol alternatives brands laptop laptops phone phones e-bike
        bikes car cars electric satellite satellites rocket nasa orbit telescope eclipse moons earth atmosphere carbon
        emissions recycling plastic coffee tea wine beer bread cheese sourdough language languages word alphabet dialect
        museum festival tradition traditions holiday painting paintings symphony opera film films movie movies series
        season composers philosophers deutschland bayern schweiz österreich europa tiere pflanzen erde klima wirkung
        nebenwirkungen allemagne terre climat animaux effets alemania españa tierra clima animales efectos германия
        россия европа земля климат животные животных страна страны планета
    """,
    "sources": """
        research study studies paper papers literature source sources cite citation citations evidence publication
        publications journal journals meta-analysis trials survey-paper reference references overview background find
        state-of-the-art guidelines reports statistics thesis academic peer-reviewed investigate recherchiere recherche
        recherchier studien studie quellen quelle überblick étude études recherches estudios estudio fuentes investiga
        investigación исследования исследование источники источник найди обзор learn fact facts explain-how statistic
        what-s-known latest news recent currently-known state compare-models best which-is documentation compare
    """,
    "creative_thing": """
        poem poems poetry haiku haikus limerick sonnet sonnets ode elegy ballad verse verses stanza rhyme rhymes rhyming
        story stories tale tales fairytale fable novel novella chapter prologue epilogue scene scenes monologue dialogue
        dialog screenplay play sketch plot twist twists character villain protagonist hero heroine dragon wizard lyrics
        song songs rap chorus jingle lullaby shanty slogan slogans tagline taglines motto headline headlines title
        titles caption captions joke jokes pun puns riddle riddles anecdote satire parody speech toast eulogy wedding
        essay letter invitation card cards birthday greeting farewell ad advert advertisement blurb bio description
        brochure flyer newsletter post tweet blog intro obituary diary legend myth bedtime superhero name names username
        nickname brainstorm imagine pretend fictional fantasy invent worldbuilding metaphor pirate shakespeare hemingway
        kafka poetic whimsical witty funny humorous sarcastic humour humor sentimental pitch gedicht gedichte geschichte
        märchen lied liedtext rede witz namen gruß grußkarte reim reime trinkspruch kurzgeschichte einladung brief
        ballade erfinde erfind poème histoire conte chanson discours blague nom lettre invente vers nouvelle haïku poema
        cuento historia canción discurso chiste eslogan nombre nombres carta inventa imagina versos стихотворение стих
        стихи стишок рассказ сказку сказка песню песня тост шутку шутка слоган название письмо анекдот поздравление
        придумай сочини историю parable prose acrostic alliteration couplet quatrain sitcom comedy tragedy comic manga
        fanfic fanfiction horror thriller romance mystery detective ghost vampire princess knight knights elf alien
        aliens unicorn mermaid monster monsters witch witches castle roast wish wishes valentine anniversary retirement
        condolence condolences apology manifesto mission jingles horoscope mascot podcast twister palindrome acronym
        trailer teaser persona backstory lore quest narrator narrate narrated told perspective voice tone ending rhymed
        playful catchy poetically dramatic dreamy nostalgic epic noir cyberpunk prank love compliment roleplay
        märchenhaft erzählung hymne einladungstext werbetext werbespruch gedichtform zeile zeilen récit roman refrain
        rime rimes publicité rima rimas relato novela estribillo anuncio поэму поэма поэмы рифма рифму строки строк
        роман сценарий фантастику
    """,
    "analysis_act": """
        analyze analyse analyzing analysis compare comparing contrast interpret evaluate assess weigh summarize
        summarise summary tldr conclude conclusion conclusions infer derive identify categorize categorise cluster
        classify group rank prioritize prioritise judge judging estimate explain spot takeaways takeaway insights
        insight sentiment tone trend trends pattern patterns correlation causal cause causes outlier outliers anomaly
        anomalies significant significance noise plausible plausibility swot pros cons tradeoffs strengths weaknesses
        strongest weakest argument arguments premises assumptions bias biased premise happened target audience ironic
        sarcasm inconsistencies inconsistent contradict contradictions stand stands risk risks severity root bottleneck
        forecast decide decision recommend choose better worse worth reasoning themes complaints overspend gaps sense
        justified supported option options offer offers figures pivot analysiere analysier vergleiche vergleich werte
        bewerte beurteile fasse zusammenfassung zusammen auffälligkeiten auswerten auswertung entwicklung schlüsse
        welches résume résumé évalue interprète tendance synthèse analiza compara resume resumen evalúa evaluá
        interpreta tendencia conclusiones проанализируй сравни оцени вывод выводы тенденция резюмируй обобщи итоги
        hypothesis hypotheses drivers drop dropped drops rose fell increase increased decrease decreased spike spikes
        growth grow declining decline peak seasonal seasonality gap quality feasible viable realistic fair implies
        implications dilemma choice verdict critique diagnose explanation relationship correlated misleading unusual
        suspicious strange odd convincing credible bottlenecks priorities matter matters vergleichen einschätzen
        einschätzung schlussfolgerung zusammenhang beurteilung stärken schwächen évaluer comparer conclure tendances
        points evaluar comparar concluir puntos tendencias закономерность закономерности зависимость оценка сравнение
    """,
    "data_thing": """
        data dataset table chart graph plot numbers figures results result survey responses feedback reviews transcript
        transcripts minutes notes thread email paragraph passage abstract article report press release contract quote
        quotes offer bill log logs metrics kpi kpis revenue sales costs cost budget margin churn conversion conversions
        visitors orders customers users signups spend income expenses profit q1 q2 q3 q4 jan feb mar apr jun jul aug sep
        oct nov dec quarter monthly weekly per week month year regression coef p ab cpu mem uptime latency incidents
        deploys tickets score scores grades ratings temperature weight sleep interview interviews statement clause daten
        zahlen tabelle umsatz kosten umfrage ergebnisse verbrauch kwh protokoll vertrag données chiffres tableau ventes
        coûts enquête résultats datos cifras tabla ventas costes encuesta resultados данные цифры таблица продажи
        выручка расходы опрос результаты отзывы retention funnel cohort sample respondents participants answers comments
        complaints salary commute rent electricity consumption usage traffic clicks views impressions inventory stock
        turnover headcount hours steps blood pressure heart-rate measurements readings sensor sensors benchmark
        benchmarks timings ms essay statements proposal plan plans speech memo policy terms heatmap histogram messdaten
        messwerte antworten verbräuche bewertungen kündigungen résultat réponses mesures avis respuestas mediciones
        reseñas ответы измерения оценки жалобы
    """,
    "deixis": """
        this these those following below above attached pasted here our my given between dieser diese dieses diesen
        folgende folgenden unten hier unsere unser unserem meine mein ce cette ces suivant suivante ci-dessous notre nos
        este esta estos estas siguiente siguientes abajo nuestro nuestra mis эти этот эта это этом ниже наши наш наша
        мой моя моём
    """,
    "math": """
        solve prove proof disprove derivative derivatives differentiate integral integrate integration integrals
        antiderivative equation equations inequality polynomial quadratic cubic prime linear matrix matrices eigenvalue
        eigenvalues eigenvectors determinant vector vectors dot probability odds chance dice coin coins cards deck
        permutations combinations binomial factorial expected variance deviation confidence interval mean median average
        percentage fraction fractions decimal decimals sum product quotient remainder divided divide multiply multiplied
        times plus minus squared cubed square root roots cube power exponent logarithm ln sqrt sin cos tan arctan limit
        converge converges convergence series sequence infinity primes divisible divisor gcd lcm modulo mod congruent
        integer integers rational irrational real complex numbers theorem lemma corollary induction contradiction graph
        vertex vertices bijection group ring field abelian isomorphic subgroup topology triangle triangles circle radius
        diameter circumference hypotenuse angle angles perimeter area volume sphere cylinder cone rectangle polygon
        slope tangent parabola hyperbola compute calculate simplify factor factorize factorise evaluate expand maximize
        minimize convert compounding compounded interest doubles ways arrange seat hex binary octal base mph speed
        berechne rechne ableitung gleichung beweise beweis wahrscheinlichkeit wurzel prozent summe bruch fläche umfang
        löse quadrat primzahl würfel calcule calculer dérivée intégrale équation démontre prouve probabilité racine
        carrée pourcentage résous résoudre font aire calcula derivada ecuación demuestra probabilidad raíz cuadrada
        porcentaje resuelve área вычисли посчитай производную производная интеграл уравнение докажи вероятность корень
        процент процентов сумму сумма площадь реши чётна число чисел trapezoid tetrahedron hexagon pentagon octagon
        mersenne fibonacci pascal euler gauss fourier laplace taylor maclaurin poisson bayes markov gaussian bernoulli
        uniform distribution independent sigma discount tip vat loan mortgage annuity twice half thrice older younger
        drawn marbles urn balls heads tails roulette poker handshakes digits digit divisors multiples odd even
        consecutive distinct subsets subset sets cartesian eigenvector trace rank kernel basis orthogonal norm gradient
        hessian jacobian partial ode pde recurrence asymptotic telescoping geometric arithmetic harmonic transcendental
        coprime totient tablespoons teaspoons zinsen kreis dreieck winkel volumen durchmesser grenzwert ungleichung
        primzahlen teiler cercle rayon périmètre limite suite nombres triángulo círculo radio perímetro límite números
        primos треугольник треугольника круга радиус предел матрица матрицы неравенство простых делится
    """,
    "act": """
        send open delete remove remind book schedule download upload run execute restart start stop kill reboot deploy
        install uninstall reload move copy rename compress zip unzip archive mark turn set check list find search look
        fetch get read save store sync backup back push pull commit checkout clone merge approve close assign post
        publish reply forward call text message ping ssh login connect mount export import print play pause mute order
        buy cancel reschedule subscribe unsubscribe share invite transcribe record take screenshot monitor watch notify
        alert resize crop rotate switch dim create put add update change block track queue tail grep show tell pay
        transfer attach empty clear enable disable lock unlock schick schicke sende öffne öffnen lösche lösch erinnere
        erinner buche starte stoppe verschieb verschiebe kopiere benenne lade such suche lies lese speichere schalte
        stell stelle trag trage ruf druck drucke installiere envoie envoyer ouvre supprime efface rappelle réserve lance
        télécharge déplace copie renomme cherche lis enregistre allume éteins ajoute appelle imprime mets envía envia
        manda abre borra elimina recuérdame reserva ejecuta descarga mueve copia renombra busca lee guarda apaga
        enciende añade llama reenvíalos pon sube отправь открой удали напомни забронируй запусти скачай перемести
        скопируй переименуй найди прочитай сохрани включи выключи добавь позвони распечатай перезапусти загрузи покажи
        поставь unmute skip resume reorder renew register rsvp confirm decline accept dial ring scan dm submit tag star
        flag snooze pin unpin trash purge wipe format unmount chmod grant revoke provision scale rollback trigger poll
        probe query curl wget relabel rebase cherry-pick stash lower raise increase decrease charge top verschicke
        versende leite aktualisiere installier sichere synchronisiere schließe transfère planifie programme ferme
        mets-moi vérifie programa cierra cierre reenvía comprueba verifica перешли создай закрой проверь запиши закажи
        обнови
    """,
    "act_thing": """
        file files folder folders directory directories email emails mail mails mailbox inbox calendar appointment
        appointments meeting meetings reminder alarm timer clock task todo list contacts contact phone mom mum dad
        lights light lamp heating thermostat kitchen living room door printer playlist spotify song volume tv camera
        screenshot clipboard desktop downloads documents disk server servers box container containers vm instance
        cluster pod process service port branch repo repository pr issue issues ticket tickets tracker channel slack
        telegram whatsapp discord teams sms notion jira trello spreadsheet sheet drive nas dropbox nextcloud backup
        backups database db weather forecast flight flights train hotel table restaurant taxi uber package parcel
        shopping cart grocery groceries invoice invoices pdf zip csv jpg png photos pictures attachment attachments spam
        newsletter webpage page url link website news headlines stock price moment datei dateien ordner termin kalender
        wecker licht drucker einkaufsliste wetter bilder kontakte erinnerung fichier fichiers dossier courriel
        calendrier rendez-vous réunion lumière demain aujourd météo archivo archivos carpeta correo mensajes calendario
        cita reunión luz luces mañana hoy tiempo clima файл файлы файла папку папка папки письмо почту почта почте
        календарь встречу встреча свет завтра сегодня погода телеграм список garage blinds curtains vacuum dishwasher
        oven radio speaker bluetooth wifi vpn router brightness wallpaper tab tabs browser bookmarks trash usb partition
        agenda event events dentist doctor hairdresser plumber landlord bank account subscription seat seats team
        colleagues boss memory ram swap cpu uptime logs space picture videos video recording draft drafts signature
        label labels
    """,
    "quantity": """
        how-many how-much how-far how-long how-old how-tall how-often wieviel combien cuánto cuánta cuántos cuántas
        сколько
    """,
    "measure": """
        second seconds minute minutes hour hours day days week weeks month months year years leap kilometers meters
        metres grams ounces cups inches inch feet foot ft cm mm km m miles mile pounds lbs kg g celsius fahrenheit
        kelvin gallons liters litres ml acres hectares knots mph kmh kph euros euro dollars dollar usd eur percent
        degrees sekunden stunden tage wochen jahre kilometer meter grad secondes heures jours semaines ans mètres degrés
        segundos horas días semanas años metros grados секунд часов дней недель лет километров метров рублей градусов
    """,
    "moment": """
        now currently right today tomorrow tonight yesterday monday tuesday wednesday thursday friday saturday sunday
        noon afternoon o'clock am pm unread latest open free left up running status heute morgen gestern jetzt gerade
        montag dienstag mittwoch donnerstag freitag samstag sonntag aujourd'hui demain hier maintenant lundi mardi
        mercredi jeudi vendredi samedi hoy mañana ayer ahora lunes martes miércoles jueves viernes sábado сейчас сегодня
        завтра вчера понедельник вторник среду четверг пятницу субботу воскресенье
    """,
    "pasted": """
        following below attached pasted transcript excerpt snippet dieser folgende folgenden unten ci-dessous siguiente
        ниже следующий
    """,
    "greeting": """
        hi hello hey heya hiya yo morning evening afternoon night bye goodbye cya moin hallo servus tschüss guten tag
        abend grüß salut bonjour bonsoir coucou hola buenos buenas días tardes adiós привет здравствуй здравствуйте
        добрый доброе утро вечер пока howdy sup
    """,
    "thanks": """
        thanks thank thx ty cheers awesome cool lol haha hahaha hehe lmao rofl wow omg oops nevermind congrats danke
        super toll genau merci génial parfait désolé gracias genial vale perdón jaja спасибо отлично ладно круто хаха
        извини понятно
    """,
    "feeling": """
        feel feels feeling feelings felt happy sad tired exhausted angry annoyed annoying lonely bored boring excited
        scared afraid nervous anxious worried stressed love loved loves hate hated miss cried cry crying laugh laughed
        proud glad relieved grateful terrible awful horrible lovely wonderful funny silly weird crazy honestly honest
        guess hope hopefully wish maybe somehow finally literally life friend friends boyfriend girlfriend husband wife
        sister brother mother father mum mom dad cat dog boss weekend holiday vacation birthday sleep sleeping slept
        dream heart head opinion favourite favorite prefer enjoy enjoyed müde traurig glücklich froh liebe langweilig
        fühle gefühl leben freund freundin hoffe wochenende fatigué fatiguée triste heureux content contente aime adore
        vie ami amie espère cansado cansada feliz contento contenta amo vida amigo amiga espero siento устал устала
        грустно рад рада счастлив скучно люблю жизнь друг подруга надеюсь чувствую настроение дела bro dude mate buddy
        pal dear missed nap beer pizza rain raining neighbour neighbor neighbours kids son daughter baby puppy grandma
        grandpa partner crush date broke married divorced moved quit hired promoted passed failed lost won finished
        survived ill sick better sunday saturday evening mood vibe random talk chat chatting story okay alone home
        embarrassed jealous confused hungry thirsty freezing sunny snow snowing
    """,
    "assistant": """
        you your yourself youre u human bot robot ai machine du dich dir dein deine tu toi te usted ты тебя тебе твоё
        твой вы вас ur yours siri chatgpt assistant awake conscious alive
    """,
    "self": """
        i im ive me my mine myself we ich mir mich je j moi yo mí mi я мне меня мы
    """,
    "many_steps": """
        then afterwards finally next also first second third each every all both include including plus step steps
        thorough detailed complete full comprehensive compare justify exactly precisely must should without never only
        except if unless otherwise least most until before after dann danach außerdem jeweils jede alle muss ohne nur
        ensuite puis chaque tous doit sans seulement luego después cada todos debe sin solo затем потом каждый каждую
        все должен без только
    """,
    "expert": """
        prove derive architecture distributed concurrent lock-free kernel compiler cuda optimize scalable production
        migration thesis rigorous formal theorem audit transcripts regression multicollinearity strategy roadmap novel
        chapter sonnet cycle protocol consensus cryptographic security integration endpoints frameworks extension
        guidelines acquisitions primary empirical hypotheses
    """,
}

LEADS: Mapping[str, str] = {
    "make": "make",
    "change": "change",
    "want": "want",
    "review": "review",
    "explain": "explain",
    "act": "act",
    "analysis": "analysis_act",
    "math": "math",
    "creative": "creative_thing",
    "code": "code_thing",
    "technology": "technology",
    "self": "self",
    "thanks": "thanks",
}
"""A word of a group with which a message, or a part of a sentence, begins has a feature of its own: it is mostly the
verb that says what is to be done."""

THINGS = frozenset(
    {
        "code_thing", "technology", "creative_thing", "analysis_act", "data_thing", "math", "act_thing", "knowledge",
        "sources",
    }
)  # fmt: skip
"""Of these groups, the one whose word comes first has a feature of its own: it is mostly what the verb is about."""

LEAD_WORDS: Mapping[str, str] = {
    "yes": """
        yes no yeah yep nope sure ok okay k fine great nice perfect good sorry well stop wait ja nein gut klar oui non
        sí да нет хорошо
    """,
    "who": """
        who when where wer wann wo qui quand où quién cuándo dónde кто когда где
    """,
    "what": """
        what whats was quoi quel quelle quelles quels qué cuál cuáles что какой какая какие каков
    """,
    "how": """
        how wie comment cómo как
    """,
    "why": """
        why warum wieso weshalb pourquoi почему зачем
    """,
    "which": """
        which welche welcher welches
    """,
    "is": """
        is are was were am does do did has have had can't isn't est-ce ist sind hat hast kann es est sont son hay there
        есть ли
    """,
    "if": """
        if given let suppose consider wenn gegeben sei si soit sea если пусть
    """,
}

POLITE = """
        please pls plz could can would will u you hey hi hello thanks thx bitte kannst könntest du mal s'il vous te
        plaît peux pouvez tu por favor puedes podrías пожалуйста можешь можете мог бы ты just quick quickly question
        thing maybe now ok okay so and also good morning evening afternoon the a an me
    """
"""What a message may begin with and its verb still comes."""

OPENERS = """
        and then please also you me to so but i'd und dann bitte et puis y luego и потом затем пожалуйста
    """
"""Behind these a part of a sentence begins, as behind a mark."""
